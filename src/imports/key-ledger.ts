import { isRecord } from '#components/validate-props.ts';
import type { KeyOutcome, KeyUse } from './project.ts';
import { hasSecretForm } from './secret-forms.ts';

/** Maximum of different keys that are counted; the rest is counted together. */
const keysMax = 2_000;
/** Maximum of records and lists within one another whose keys are counted. */
const depthMax = 20;

/** Counts every key of an export with its outcome. A key that is not counted would be dropped silently. */
export class KeyLedger {
  readonly #uses = new Map<string, KeyUse>();

  count(key: string, outcome: KeyOutcome): void {
    const isFull = this.#uses.size >= keysMax && !this.#uses.has(`${outcome} ${key}`);
    const counted = isFull ? '(other keys)' : key;
    const id = `${outcome} ${counted}`;
    const use = this.#uses.get(id);
    if (use === undefined) this.#uses.set(id, { key: counted, count: 1, outcome });
    else use.count += 1;
  }

  /** Counts a key that is not known, and all keys in its value. */
  countUnknown(key: string, value: unknown, depth = 0): void {
    if (depth === 0) this.count(key, 'unknown');
    if (typeof value !== 'object' || value === null || depth > depthMax) return;
    if (Array.isArray(value)) for (const item of value) this.countUnknown(`${key}[]`, item, depth + 1);
    else
      for (const [name, inner] of Object.entries(value)) {
        const at = `${key}.${knownName(name)}`;
        this.count(at, 'unknown');
        this.countUnknown(at, inner, depth + 1);
      }
  }

  /** By key. */
  get uses(): KeyUse[] {
    return [...this.#uses.values()].sort((one, other) => (one.key < other.key ? -1 : 1));
  }
}

/** A mapping of an export: each field is taken once, and what was not taken is unknown. */
export class Fields {
  readonly #values: Record<string, unknown>;
  readonly #at: string;
  readonly #ledger: KeyLedger;
  readonly #taken = new Set<string>();

  /** `at`: where it stands, such as `settings.`; '' for the top. */
  constructor(value: unknown, at: string, ledger: KeyLedger) {
    this.#values = isRecord(value) ? value : {};
    this.#at = at;
    this.#ledger = ledger;
  }

  take(name: string, outcome: KeyOutcome = 'converted'): unknown {
    if (!Object.hasOwn(this.#values, name)) return undefined;
    if (!this.#taken.has(name)) this.#ledger.count(`${this.#at}${name}`, outcome);
    this.#taken.add(name);
    return this.#values[name];
  }

  /** The first of several names of one thing that has a value; the others repeat it. */
  takeFirst(names: readonly string[], outcome: KeyOutcome = 'converted'): unknown {
    const given = names.filter((name) => Object.hasOwn(this.#values, name));
    const first = given.find((name) => this.#values[name] !== null) ?? given[0];
    for (const name of given) if (name !== first) this.take(name, 'ignored');
    return first === undefined ? undefined : this.take(first, outcome);
  }

  /** Names that were not taken. */
  left(): string[] {
    return Object.keys(this.#values).filter((name) => !this.#taken.has(name));
  }

  /** What is left, counted as unknown. */
  rest(): [name: string, value: unknown][] {
    const left = Object.entries(this.#values).filter(([name]) => !this.#taken.has(name));
    for (const [name, value] of left) this.#ledger.countUnknown(`${this.#at}${knownName(name)}`, value);
    return left;
  }
}

/** A key for a message. One that is no plain name may be content, such as the name of a record, and is not shown. */
export function knownName(name: string): string {
  return /^[\w$.@/ -]{1,60}$/.test(name) && !hasSecretForm(name) ? name : 'an unusual name';
}
