import { Link } from 'wouter';
import type { Component, ComponentSummary, ConfigurableProp } from '#sdk';
import { useRegistryComponent } from '~/api/queries.ts';
import { useListedComponent } from '~/api/registry-queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { CopyButton } from '~/parts/copy.tsx';
import { MarkedText } from '~/parts/marked-text.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** A component of the registry. Its description is shown immediately; its props need a build, which can take a while. */
export function RegistryComponentPage({ componentKey: key }: { componentKey: string }) {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId) === true;
  const listed = useListedComponent(key);
  const built = useRegistryComponent(key);
  const component = built.data;
  const type = component?.type ?? listed.data?.type;
  return (
    <PageFrame
      title={component?.name ?? listed.data?.name ?? key}
      lead={<Lead componentKey={key} listed={listed.data ?? undefined} component={component} />}
      actions={
        mayWrite &&
        (type === 'source' ? (
          <Link href={`/sources/new?key=${encodeURIComponent(key)}`} className="button primary">
            Create a source
          </Link>
        ) : type === 'action' ? (
          <Link href={`/workflows/new?component=${encodeURIComponent(key)}`} className="button primary">
            Use in a workflow
          </Link>
        ) : null)
      }
    >
      {listed.error !== null && <Problem error={listed.error} onRetry={() => void listed.refetch()} />}
      <Description text={component?.description ?? listed.data?.description ?? ''} />
      {built.error !== null && (
        <Problem
          error={built.error}
          what="This component cannot be used."
          onRetry={() => void built.refetch()}
        />
      )}
      {component === undefined && built.error === null && (
        <Loading what="Building the component; the first time its packages are installed" />
      )}
      {component !== undefined && (
        <>
          <Props definitions={component.configurable_props} listed={listed.data ?? undefined} />
          <details className="card">
            <summary>Code</summary>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable. */}
            <pre className="code-text" tabIndex={0}>
              {visible(shortened(component.code, 100_000))}
            </pre>
          </details>
        </>
      )}
      <p>
        <Link href="/registry">All components</Link>
      </p>
    </PageFrame>
  );
}

function Lead({
  componentKey: key,
  listed,
  component,
}: {
  componentKey: string;
  listed: ComponentSummary | undefined;
  component: Component | undefined;
}) {
  const of = listed?.package;
  const repository = listed?.repository ?? null;
  return (
    <p className="muted facts">
      {listed !== undefined && <span>{listed.type}</span>}
      <span className="with-copy">
        <code className="break">{visible(shortened(key, 200))}</code>
        <CopyButton text={key} label="Copy the key" />
      </span>
      <span>version {visible(shortened(component?.version ?? listed?.version ?? '…', 60))}</span>
      {listed !== undefined && listed.app_details !== null && (
        <Link href={`/apps/${encodeURIComponent(listed.app)}`}>
          <bdi>{visible(shortened(listed.app_details.name, 60))}</bdi>
        </Link>
      )}
      {listed?.app_details === null && <bdi>app {visible(shortened(listed.app, 60))}</bdi>}
      {of === null && repository === null && <span>comes with the service</span>}
      {repository !== null && (
        <bdi className="break">
          from {visible(shortened(repository.url, 200))} at <code>{repository.commit.slice(0, 12)}</code>
        </bdi>
      )}
      {of !== null && of !== undefined && (
        <bdi className="break">
          from {visible(shortened(of.name, 100))} {visible(shortened(of.version, 40))}
        </bdi>
      )}
    </p>
  );
}

function Description({ text }: { text: string }) {
  return text === '' ? (
    <p className="muted">It does not say what it does.</p>
  ) : (
    <MarkedText text={text} max={4_000} />
  );
}

function Props({
  definitions,
  listed,
}: {
  definitions: readonly ConfigurableProp[];
  listed: ComponentSummary | undefined;
}) {
  return (
    <section className="card" aria-labelledby="props">
      <h2 id="props">Props</h2>
      {definitions.length === 0 && <p className="muted">It has none: there is nothing to configure.</p>}
      <dl className="props">
        {definitions.map((definition) => (
          <div key={definition.name}>
            <dt className="facts">
              <code>{visible(shortened(definition.name, 100))}</code>
              <span className="muted">{typeWords(definition)}</span>
              {isOptional(definition) && <span className="muted">optional</span>}
              {definition.remoteOptions === true && <span className="muted">its choices are asked for</span>}
              {definition.reloadProps === true && <span className="muted">others follow from it</span>}
            </dt>
            <dd>
              {definition.label !== undefined && (
                <strong>
                  <bdi>{oneLine(definition.label, 200)}</bdi>
                </strong>
              )}
              {definition.type === 'app' && <AppOf slug={definition.app} listed={listed} />}
              {definition.description !== undefined && (
                <MarkedText text={definition.description} max={2_000} />
              )}
              {definition.default !== undefined && (
                <p className="muted break">Default: {oneLine(definition.default, 300)}</p>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const typesInWords: Record<string, string> = {
  app: 'an account',
  '$.interface.timer': 'a timer',
  '$.interface.http': 'an address of its own',
  '$.service.db': 'what it remembers',
  alert: 'a note',
};

function typeWords({ type }: ConfigurableProp): string {
  return typesInWords[type] ?? visible(shortened(type, 60));
}

function isOptional({ type, optional, default: preset }: ConfigurableProp): boolean {
  if (type in typesInWords && type !== 'app') return false;
  return optional === true || preset !== undefined;
}

/** A link where the catalogue is known to have the app. */
function AppOf({ slug = '', listed }: { slug: string | undefined; listed: ComponentSummary | undefined }) {
  const shown = <code>{visible(shortened(slug, 60))}</code>;
  const isKnown = listed?.app === slug && listed.app_details !== null;
  return isKnown ? <Link href={`/apps/${encodeURIComponent(slug)}`}>{shown}</Link> : shown;
}
