/** The glass box of one text. */
export async function openGlassBox() {
  throw new Error('not yet');
}
