import { useInstance, useSession } from '~/api/workspace-queries.ts';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { Problem } from '~/parts/problem.tsx';
import { InstanceProcesses } from './instance-processes.tsx';
import { InstanceQuotas } from './instance-quotas.tsx';
import { InstanceRunning } from './instance-running.tsx';
import { InstanceSettings } from './instance-settings.tsx';
import { InstanceUsers } from './instance-users.tsx';
import { InstanceAudit } from './workspace-audit.tsx';

/** What runs here, how it is set up and who uses it: for the admin of the instance. */
export function InstancePage() {
  const session = useSession();
  return (
    <PageFrame title="This instance">
      {session.error !== null && <Problem error={session.error} onRetry={() => void session.refetch()} />}
      {session.isPending && <Loading />}
      {session.data?.is_admin === false && (
        <Empty title="For the admin of this instance">
          <p>You are not an admin. The first user of the service is its admin.</p>
        </Empty>
      )}
      {session.data?.is_admin === true && (
        <PageTabs
          href="/instance"
          className="tabbed"
          tabs={[
            { id: 'running', name: 'Running', content: <Told of="running" /> },
            { id: 'processes', name: 'Processes', content: <InstanceProcesses /> },
            { id: 'settings', name: 'Settings', content: <Told of="settings" /> },
            { id: 'users', name: 'Users', content: <InstanceUsers /> },
            { id: 'quotas', name: 'Quotas', content: <InstanceQuotas /> },
            { id: 'audit', name: 'Audit log', content: <InstanceAudit /> },
          ]}
        />
      )}
    </PageFrame>
  );
}

function Told({ of }: { of: 'running' | 'settings' }) {
  const instance = useInstance();
  if (instance.data === undefined) {
    return instance.error === null ? (
      <Loading />
    ) : (
      <Problem error={instance.error} onRetry={() => void instance.refetch()} />
    );
  }
  return (
    <>
      {instance.error !== null && <Problem error={instance.error} what="This may not be up to date." />}
      {of === 'running' ? (
        <InstanceRunning instance={instance.data} />
      ) : (
        <InstanceSettings settings={instance.data.settings} />
      )}
    </>
  );
}
