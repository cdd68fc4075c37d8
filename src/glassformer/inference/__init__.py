"""Translation with a trained model: engines, the translator, requests of many callers, jobs, metrics, evaluation."""
