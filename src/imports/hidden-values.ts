import { checkIt, type Finding } from './project.ts';

/** The parts of a step that are searched. */
export interface ReadingStep {
  /** Name of the step in the imported workflow. */
  name: string;
  disabled: boolean;
  /** Variables that the code and the props read. */
  variables: readonly string[];
  /** The text of the code and the props. */
  text: string;
}

/**
 * Steps that may return the value of a secret variable to later steps. The other service passes the value on. Here, later steps get
 * `[redacted]` instead, so the workflow might send that in place of an address or a name.
 */
export function hiddenValues(
  steps: readonly ReadingStep[],
  isSecret: (variable: string) => boolean,
): Finding[] {
  const running = steps.filter(({ disabled }) => !disabled);
  return running.flatMap(({ name, variables }, at) => {
    const secret = variables.filter(isSecret);
    if (secret.length === 0 || !running.slice(at + 1).some(({ text }) => reads(text, name))) return [];
    return [
      checkIt(
        `later steps read what it returns, and get [redacted] in the place of ${secret.join(', ')}, because ${secret.length === 1 ? 'it is' : 'they are'} secret: make plain what is no secret`,
        name,
        `millrace env set ${secret[0]} --plain`,
      ),
    ];
  });
}

function reads(text: string, step: string): boolean {
  return new RegExp(`(?<![\\w$.])steps\\s*(?:\\?\\.|\\.|(?:\\?\\.)?\\[\\s*['"\`])\\s*${step}\\b`).test(text);
}
