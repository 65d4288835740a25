import type { Settings } from './settings.ts';

/** The address of the service. With port 0 it is known only once the service listens, so it is read when it is needed. */
export class ServiceAddress {
  readonly #host: string;
  readonly #publicUrl: string;
  #port: number;

  constructor({ host, port, publicUrl }: Pick<Settings, 'host' | 'port' | 'publicUrl'>) {
    this.#host = host;
    this.#port = port;
    this.#publicUrl = publicUrl.replace(/\/$/, '');
  }

  /** The server listens on this port. */
  bound(port: number): void {
    this.#port = port;
  }

  get listening(): { address: string; port: number } {
    return { address: this.#host, port: this.#port };
  }

  /** On this machine, without a slash at the end. */
  get localUrl(): string {
    return `http://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${this.#port}`;
  }

  /** As the world reaches it, without a slash at the end. Bound, so that it can be handed on as a function. */
  readonly publicUrl = (): string => (this.#publicUrl === '' ? this.localUrl : this.#publicUrl);
}
