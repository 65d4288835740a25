import { isAbsolute, resolve } from 'node:path';
import { Api } from './api.ts';
import { type ChosenConnection, chooseConnection } from './connection.ts';
import { Questions } from './questions.ts';
import type { Terminal } from './terminal.ts';

/** Options that every command takes. */
export interface CommonOptions {
  json?: boolean;
  profile?: string;
  workspace?: string;
}

export interface SessionOptions {
  terminal: Terminal;
  environment: Readonly<Record<string, string | undefined>>;
  /** The current working directory. */
  folder: string;
  /** Aborted by Ctrl-C. */
  interrupted: AbortSignal;
  /** The version of this program, which is that of the service it came with. */
  version: string;
}

/** One command that is being carried out: its options, its client of the service, and where its output goes. */
export class Session {
  readonly terminal: Terminal;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly interrupted: AbortSignal;
  readonly version: string;
  readonly questions: Questions;
  readonly isJson: boolean;
  /** The workspace to work in; undefined: the caller's own objects. */
  readonly workspace: string | undefined;
  readonly #profile: string | undefined;
  readonly #sessionOptions: SessionOptions;

  constructor(sessionOptions: SessionOptions, options: CommonOptions) {
    this.#sessionOptions = sessionOptions;
    this.terminal = sessionOptions.terminal;
    this.environment = sessionOptions.environment;
    this.folder = sessionOptions.folder;
    this.interrupted = sessionOptions.interrupted;
    this.version = sessionOptions.version;
    this.questions = new Questions(sessionOptions.terminal, sessionOptions.interrupted);
    this.isJson = options.json === true;
    this.workspace = options.workspace;
    this.#profile = options.profile;
  }

  /** The same in another workspace. */
  inWorkspace(workspace: string): Session {
    return new Session(this.#sessionOptions, {
      json: this.isJson,
      workspace,
      ...(this.#profile === undefined ? {} : { profile: this.#profile }),
    });
  }

  connection(): Promise<ChosenConnection> {
    return chooseConnection(this.environment, this.#profile);
  }

  async api(): Promise<Api> {
    const { url, apiKey } = await this.connection();
    return new Api({ url, apiKey, signal: this.interrupted });
  }

  /** For creates: the owner of the new object. */
  get owner(): { org_id: string | undefined } {
    return { org_id: this.workspace };
  }

  path(file: string): string {
    return isAbsolute(file) ? file : resolve(this.folder, file);
  }
}
