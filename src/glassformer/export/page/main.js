/** The page. */
import { Translator } from 'translator/engine.js';
