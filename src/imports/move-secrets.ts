import { createHash } from 'node:crypto';
import { replaceSecrets } from './find-secrets.ts';

/** A secret that stood in clear in an export; from now on it is a secret variable. */
export interface MovedSecret {
  /** Name of the variable. */
  name: string;
  value: string;
  /** Where it stood, such as `call.httpRequest.auth.token`. */
  place: string;
}

/** `unsure`: places of texts that may be secrets, or hold one, and stay as they are. */
export interface WithoutSecrets {
  props: Record<string, unknown>;
  moved: MovedSecret[];
  unsure: string[];
}

/**
 * The props of a step with each secret in clear replaced by an expression that reads a secret variable, so that what the step does stays the
 * same. In requests names decide (authentication, headers, parameters, bodies, URLs), everywhere the form of a text does. A prop with the name
 * of a secret stays: components say of their own props which are secret, and those are sealed.
 */
export function moveSecrets(
  props: Record<string, unknown>,
  { workflowId, namespace }: { workflowId: string; namespace: string },
): WithoutSecrets {
  const moved: MovedSecret[] = [];
  const unsure: string[] = [];
  const places = new Map<string, number>();
  const replaced = replaceSecrets(props, {
    replace({ value, place, quote }) {
      const whole = `${namespace}.${place}`;
      const nth = (places.get(whole) ?? 0) + 1;
      places.set(whole, nth);
      const mark = createHash('sha256')
        .update(`${workflowId} ${whole}${nth === 1 ? '' : ` ${nth}`}`)
        .digest('hex')
        .slice(0, 6)
        .toUpperCase();
      const name = variableName(`${namespace}_${place.split('.').at(-1) ?? ''}_${mark}`);
      moved.push({ name, value, place: whole });
      return quote === '' ? `{{process.env.${name}}}` : `process.env.${name}`;
    },
    onUnsure: (place) => unsure.push(`${namespace}.${place}`),
  });
  return { props: replaced, moved, unsure };
}

function variableName(text: string): string {
  const name = text
    .toUpperCase()
    .replaceAll(/[^A-Z0-9_]+/g, '_')
    .slice(0, 200);
  return /^(?:[0-9]|PD_|PIPEDREAM_|MILLRACE_)/.test(name) ? `STEP_${name}` : name;
}
