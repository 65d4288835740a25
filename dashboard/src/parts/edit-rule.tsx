import {
  conditionLabels,
  type Rule,
  type RuleKind,
  ruleKind,
  takesCase,
  takesSecond,
} from '~/editing/rule-draft.ts';
import { FieldProblem } from './field.tsx';
import { ValueInput } from './value-input.tsx';

const kindNames: Readonly<Record<RuleKind, string>> = {
  condition: 'A condition',
  expression: 'An expression',
  all: 'All of several rules',
  any: 'Any of several rules',
  not: 'The opposite of a rule',
};

const firstCondition: Rule = { value: '{{steps.trigger.event.body}}', condition: 'EXISTS' };

interface RuleProps {
  /** Before the ids of its controls. */
  id: string;
  /** What the rule decides, such as `Rule of branch big`. */
  name: string;
  rule: Rule;
  onChange: (rule: Rule) => void;
  paths: readonly string[];
  /** The place of the rule in its step, such as `branches[0].if`. */
  at: string;
  /** The service's error about a place in the step. */
  problem: { field: string; message: string } | undefined;
}

/** A rule of a branch or a filter: a condition, an expression, or several rules. */
export function EditRule(props: RuleProps) {
  const { id, name, rule, onChange, at, problem } = props;
  const kind = ruleKind(rule);
  const rest = problem?.field.startsWith(at) === true ? problem.field.slice(at.length) : undefined;
  const isHere = rest !== undefined && !/^\.(?:(?:all|any)\[|not\b)/.test(rest);
  return (
    <fieldset className="rule">
      <legend className="off-screen">{name}</legend>
      <div className="field">
        <label className="label" htmlFor={`${id}-kind`}>
          {name}
        </label>
        <select
          id={`${id}-kind`}
          className="select"
          aria-invalid={isHere || undefined}
          aria-describedby={isHere ? `${id}-problem` : undefined}
          value={kind}
          onChange={({ target: { value } }) => onChange(ruleOfKind(value as RuleKind, rule))}
        >
          {Object.entries(kindNames).map(([one, text]) => (
            <option key={one} value={one}>
              {text}
            </option>
          ))}
        </select>
      </div>
      <RuleFields {...props} kind={kind} />
      {isHere && <FieldProblem id={id} text={problem?.message} />}
    </fieldset>
  );
}

function RuleFields({ kind, ...props }: RuleProps & { kind: RuleKind }) {
  const { id, name, rule, onChange, paths, at } = props;
  if (kind === 'expression') {
    return (
      <ValueInput
        id={`${id}-expression`}
        name="Expression"
        hint="The rule is met unless its value is nothing, 0, empty text or the text false"
        placeholder="{{steps.trigger.event.body.paid}}"
        value={rule === '' ? undefined : rule}
        onChange={(value) =>
          onChange(typeof value === 'string' ? value : value === undefined ? '' : String(value))
        }
        paths={paths}
      />
    );
  }
  if (kind === 'not') {
    const { not } = rule as { not: Rule };
    return (
      <EditRule
        {...props}
        id={`${id}-not`}
        name="Rule that must not be met"
        rule={not}
        at={`${at}.not`}
        onChange={(next) => onChange({ not: next })}
      />
    );
  }
  if (kind === 'all' || kind === 'any') {
    const rules = (rule as Record<string, Rule[]>)[kind] ?? [];
    const change = (next: Rule[]) => onChange(kind === 'all' ? { all: next } : { any: next });
    return (
      <>
        {rules.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rules have nothing else that they are told apart by.
          <div key={index} className="rule-part">
            <EditRule
              {...props}
              id={`${id}-${index}`}
              name={`Rule ${index + 1}`}
              rule={one}
              at={`${at}.${kind}[${index}]`}
              onChange={(next) => change(rules.with(index, next))}
            />
            <button type="button" className="link" onClick={() => change(rules.toSpliced(index, 1))}>
              Remove rule {index + 1}
              <span className="off-screen"> of: {name}</span>
            </button>
          </div>
        ))}
        <div>
          <button type="button" className="button small" onClick={() => change([...rules, firstCondition])}>
            Add a rule<span className="off-screen"> to: {name}</span>
          </button>
        </div>
      </>
    );
  }
  const given: Condition =
    typeof rule === 'object' ? (rule as Condition) : { value: rule, condition: 'TRUE' };
  const set = (change: Partial<Condition>) => {
    const next = { ...given, ...change };
    if (!takesSecond(next.condition)) delete next.second_value;
    if (!takesCase(next.condition)) delete next.case_sensitive;
    onChange(next);
  };
  return (
    <div className="field-grid">
      <ValueInput
        id={`${id}-value`}
        name="Value"
        value={given.value}
        onChange={(value) => set({ value })}
        paths={paths}
      />
      <div className="field">
        <label className="label" htmlFor={`${id}-condition`}>
          Condition
        </label>
        <select
          id={`${id}-condition`}
          className="select"
          value={given.condition}
          onChange={({ target: { value } }) => set({ condition: value })}
        >
          {Object.entries(conditionLabels).map(([condition, label]) => (
            <option key={condition} value={condition}>
              {label}
            </option>
          ))}
        </select>
      </div>
      {takesSecond(given.condition) && (
        <ValueInput
          id={`${id}-second`}
          name="Second value"
          value={given.second_value}
          onChange={(second) => set({ second_value: second })}
          paths={paths}
        />
      )}
      {takesCase(given.condition) && (
        <label className="check">
          <input
            type="checkbox"
            checked={given.case_sensitive === true}
            onChange={({ target }) => set({ case_sensitive: target.checked })}
          />
          Case sensitive
        </label>
      )}
    </div>
  );
}

interface Condition {
  value?: unknown;
  condition: string;
  second_value?: unknown;
  case_sensitive?: boolean;
}

/** What is there is taken over where the other kind can hold it. */
function ruleOfKind(kind: RuleKind, before: Rule): Rule {
  const inner = innerRules(before);
  switch (kind) {
    case 'expression': {
      const value = typeof before === 'object' && 'value' in before ? before.value : undefined;
      return typeof value === 'string' ? value : '';
    }
    case 'condition':
      return typeof before === 'string'
        ? { value: before, condition: 'TRUE' }
        : (inner.find((rule) => ruleKind(rule) === 'condition') ?? firstCondition);
    case 'all':
      return { all: inner };
    case 'any':
      return { any: inner };
    case 'not':
      return { not: inner[0] ?? firstCondition };
  }
}

function innerRules(rule: Rule): Rule[] {
  if (typeof rule !== 'object') return [rule];
  if ('all' in rule) return rule.all;
  if ('any' in rule) return rule.any;
  return 'not' in rule ? [rule.not] : [rule];
}
