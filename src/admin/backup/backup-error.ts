/** A backup cannot be made, read or restored; shown to the user without a stack. Nothing was changed. */
export class BackupError extends Error {
  override name = 'BackupError';
}
