import { Link } from 'wouter';
import { useMembers, useRole } from '~/api/rights.ts';
import { Icon } from '~/parts/icon.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { type PageTab, PageTabs } from '~/parts/page-tabs.tsx';
import { ApiKeys } from './api-keys.tsx';
import { ServiceAccounts } from './service-accounts.tsx';
import { SignInTab } from './sign-in-methods.tsx';
import { UsageByDay } from './usage-by-day.tsx';
import { OwnAudit, WorkspaceAudit } from './workspace-audit.tsx';
import { WorkspaceMembers } from './workspace-members.tsx';
import { WorkspaceProjects } from './workspace-projects.tsx';
import { WorkspaceSettings } from './workspace-settings.tsx';
import { WorkspaceVariables } from './workspace-variables.tsx';

/** The page of the owner that is shown: members, projects, usage, and the user's own keys. */
export function WorkspacePage() {
  const { me, ownerId } = useOwner();
  const { isPending } = useMembers(ownerId);
  const role = useRole(ownerId);
  const workspace = me.orgs?.find(({ id }) => id === ownerId);
  const keys: PageTab = { id: 'keys', name: 'Your API keys', content: <ApiKeys /> };
  const signIn: PageTab = { id: 'sign-in', name: 'Sign-in', content: <SignInTab /> };
  const usage: PageTab = { id: 'usage', name: 'Usage', content: <UsageByDay key={ownerId} /> };
  const variables: PageTab = {
    id: 'variables',
    name: 'Variables',
    content: <WorkspaceVariables key={ownerId} ownerId={ownerId} />,
  };
  const tabs: PageTab[] =
    workspace === undefined
      ? [keys, signIn, variables, usage, { id: 'audit', name: 'Audit log', content: <OwnAudit /> }]
      : [
          {
            id: 'members',
            name: 'Members',
            content: <WorkspaceMembers key={ownerId} workspace={workspace} />,
          },
          // Service accounts, the audit and the settings are answered to its admins only.
          ...(role === 'admin'
            ? [
                {
                  id: 'service-accounts',
                  name: 'Service accounts',
                  content: <ServiceAccounts key={ownerId} workspaceId={ownerId} />,
                },
              ]
            : []),
          {
            id: 'projects',
            name: 'Projects',
            content: <WorkspaceProjects key={ownerId} workspaceId={ownerId} />,
          },
          variables,
          usage,
          keys,
          signIn,
          ...(role === 'admin'
            ? [
                {
                  id: 'audit',
                  name: 'Audit log',
                  content: <WorkspaceAudit key={ownerId} workspaceId={ownerId} />,
                },
                {
                  id: 'settings',
                  name: 'Settings',
                  content: <WorkspaceSettings key={ownerId} workspaceId={ownerId} />,
                },
              ]
            : []),
        ];
  return (
    <PageFrame
      title={workspace?.name ?? `My own (${me.username})`}
      lead={
        <p className="muted">
          {workspace === undefined ? (
            'What belongs to you personally, and to no workspace.'
          ) : (
            <>
              Workspace <code>{workspace.orgname}</code> · <code>{workspace.id}</code>
              {typeof role === 'string' && <> · your role is {role}</>}
            </>
          )}
        </p>
      }
      actions={
        <Link href="/workspace/new" className="button">
          <Icon name="plus" />
          New workspace
        </Link>
      }
    >
      {/* Which tabs there are depends on the role. */}
      {workspace !== undefined && isPending ? (
        <Loading />
      ) : (
        <PageTabs key={ownerId} href="/workspace" tabs={tabs} className="tabbed" />
      )}
    </PageFrame>
  );
}
