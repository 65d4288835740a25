/** A backup cannot be made, read or restored; told to the person at the terminal without a stack. Nothing was changed. */
export class BackupError extends Error {
  override name = 'BackupError';
}
