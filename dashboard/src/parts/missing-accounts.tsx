import type { ConfigurableProp, Source } from '#sdk';
import { useApp } from '~/api/account-queries.ts';
import { shortened, visible } from './plain-text.ts';

/** Says which required accounts a source is without: its code fails where it uses them. */
export function MissingAccounts({
  source,
  definitions,
}: {
  source: Source;
  definitions: readonly ConfigurableProp[];
}) {
  const missing = definitions.filter(
    ({ type, optional, name }) => type === 'app' && optional !== true && !source.configured_props[name],
  );
  return missing.map((definition) => (
    <MissingAccount key={definition.name} definition={definition} source={source} />
  ));
}

function MissingAccount({ definition, source }: { definition: ConfigurableProp; source: Source }) {
  const slug = definition.app ?? '';
  const app = useApp(slug, source.owner_id);
  // Apps with nothing but methods have no accounts.
  if (app.isPending || app.data?.auth_type === 'none') return null;
  return (
    <p className="note">
      No account of <bdi>{visible(shortened(app.data?.name ?? slug, 100))}</bdi> is chosen for the prop{' '}
      <code>{visible(shortened(definition.name, 100))}</code>: what the code does with this app fails. Choose
      one under <a href={`/sources/${source.id}?tab=code`}>Code and props</a>.
    </p>
  );
}
