import { Problem } from './problem.tsx';

/** The section that says if a source or a workflow is active and what that means, with the button that changes it. */
export function ActivityCard({
  active,
  meaning,
  change,
  onChange,
}: {
  active: boolean;
  meaning: { active: string; inactive: string };
  change: { isPending: boolean; error: Error | null };
  onChange: (active: boolean) => void;
}) {
  return (
    <section className="card" aria-labelledby="activity">
      <h2 id="activity">{active ? 'Active' : 'Inactive'}</h2>
      <p className="muted">{active ? meaning.active : meaning.inactive}</p>
      {change.error !== null && <Problem error={change.error} />}
      <button type="button" className="button" disabled={change.isPending} onClick={() => onChange(!active)}>
        {change.isPending ? 'One moment …' : active ? 'Deactivate' : 'Activate'}
      </button>
    </section>
  );
}
