/** A mistake in how the component was configured: shown to the user who configures it, without its stack. */
export class ConfigurationError extends Error {
  override readonly name: string = 'ConfigurationError';
  readonly exposeStack: boolean;

  constructor(message: string, exposeStack = false) {
    super(message);
    this.exposeStack = exposeStack;
  }
}
