import checkbox from '@inquirer/checkbox';
import confirm from '@inquirer/confirm';
import input from '@inquirer/input';
import password from '@inquirer/password';
import search from '@inquirer/search';
import select from '@inquirer/select';
import { CliError } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';
import { cut, visible } from './visible-text.ts';

export interface Choice<T> {
  label: string;
  value: T;
  description?: string;
}

const labelColumns = 70;

/** Asks the user on standard error, so that standard output has only the answer. Never without a terminal. */
export class Questions {
  readonly #terminal: Terminal;
  readonly #interrupted: AbortSignal;

  constructor(terminal: Terminal, interrupted: AbortSignal) {
    this.#terminal = terminal;
    this.#interrupted = interrupted;
  }

  get canAsk(): boolean {
    return this.#terminal.isInteractive;
  }

  text(
    message: string,
    options: { initial?: string; check?: (text: string) => string | true } = {},
  ): Promise<string> {
    const { initial, check } = options;
    return this.#ask((context) =>
      input(
        {
          message: visible(message),
          ...(initial === undefined ? {} : { default: initial }),
          ...(check === undefined ? {} : { validate: check }),
        },
        context,
      ),
    );
  }

  /** What is typed is not shown. */
  secret(message: string): Promise<string> {
    return this.#ask((context) => password({ message: visible(message), mask: '*' }, context));
  }

  yes(message: string, initial: boolean): Promise<boolean> {
    return this.#ask((context) => confirm({ message: visible(message), default: initial }, context));
  }

  one<T>(message: string, choices: readonly Choice<T>[], initial?: T): Promise<T> {
    return this.#ask((context) =>
      select<T>(
        {
          message: visible(message),
          choices: choices.map(shown),
          ...(initial === undefined ? {} : { default: initial }),
        },
        context,
      ),
    );
  }

  many<T>(message: string, choices: readonly Choice<T>[]): Promise<T[]> {
    return this.#ask((context) =>
      checkbox<T>({ message: visible(message), choices: choices.map(shown) }, context),
    );
  }

  /** Choices are searched while the user types. */
  find<T>(message: string, source: (typed: string) => Promise<readonly Choice<T>[]>): Promise<T> {
    return this.#ask((context) =>
      search<T>(
        { message: visible(message), source: async (typed = '') => (await source(typed)).map(shown) },
        context,
      ),
    );
  }

  async #ask<T>(question: (context: QuestionContext) => Promise<T>): Promise<T> {
    if (!this.canAsk) throw new CliError('usage', 'there is no terminal to ask at');
    this.#terminal.endStatus();
    const { stdin, stderr } = this.#terminal.streams;
    try {
      return await question({ input: stdin, output: stderr, signal: this.#interrupted });
    } catch (error) {
      const isGone = error instanceof Error && ['ExitPromptError', 'AbortPromptError'].includes(error.name);
      if (!isGone) throw error;
      throw new CliError('interrupted', 'interrupted', { cause: error });
    }
  }
}

interface QuestionContext {
  input: NodeJS.ReadableStream;
  output: NodeJS.WritableStream;
  signal: AbortSignal;
}

function shown<T>({ label, value, description }: Choice<T>): {
  name: string;
  value: T;
  description?: string;
} {
  return {
    name: cut(visible(label), labelColumns),
    value,
    ...(description === undefined ? {} : { description: visible(description) }),
  };
}
