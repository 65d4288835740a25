import { Link } from 'wouter';
import type { StepDefinition, TriggerDefinition } from '#sdk';
import { blockName, ownFields } from '~/editing/blocks.ts';
import { formatDuration } from './format.ts';
import { JsonView } from './json-view.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';

/** What starts runs of the workflow that a template makes, in words. */
export function triggerWords({ type, props = {} }: TriggerDefinition): string {
  switch (type) {
    case 'http':
      return `HTTP request${props.custom_response === true ? ', a step answers' : ''}`;
    case 'email':
      return 'Mail';
    case 'on_failure':
      return 'Failed runs';
    case 'timer':
      return typeof props.cron === 'string'
        ? `Timer: cron ${oneLine(props.cron, 100)}, ${oneLine(props.timezone ?? 'UTC', 60)}`
        : `Timer: every ${formatDuration(Number(props.interval_seconds ?? 0) * 1000)}`;
    default:
      return 'Source';
  }
}

/** The component of a trigger that is a source, and the values it comes with. */
export function sourceOf({ props = {} }: TriggerDefinition): StepDefinition {
  const { code, component, configured_props } = props;
  return {
    namespace: 'source',
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof component === 'string' ? { component } : {}),
    props: (configured_props ?? {}) as Record<string, unknown>,
  };
}

/** A key of the registry, without its version. */
function keyOf(component: string): string | undefined {
  if (component.startsWith('sc_') || component.includes('/')) return undefined;
  const at = component.indexOf('@', 1);
  return at === -1 ? component : component.slice(0, at);
}

export function StepMadeOf({ step: { code, component, block } }: { step: StepDefinition }) {
  if (block !== undefined) return <span className="muted">{blockName(block)}</span>;
  if (code !== undefined || component === undefined) return <span className="muted">custom code</span>;
  const key = keyOf(component);
  const shown = <code className="break">{visible(shortened(component, 200))}</code>;
  return key === undefined ? shown : <Link href={`/registry/${encodeURIComponent(key)}`}>{shown}</Link>;
}

/** The fields of a block, without its name and the steps in it. */
function fieldsOf({ namespace: _name, disabled: _disabled, ...step }: StepDefinition) {
  return ownFields(step);
}

/** The values and the code that a step comes with. */
export function StepContent({ step }: { step: StepDefinition }) {
  const { namespace, code, block } = step;
  const props = block === undefined ? (step.props ?? {}) : fieldsOf(step);
  return (
    <>
      {Object.keys(props).length > 0 && (
        <details>
          <summary>Values it comes with</summary>
          <JsonView value={props} label={`Values of ${visible(namespace)}`} />
        </details>
      )}
      {code !== undefined && (
        <details>
          <summary>Code</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable. */}
          <pre className="code-text" tabIndex={0}>
            {visible(shortened(code, 100_000))}
          </pre>
        </details>
      )}
    </>
  );
}
