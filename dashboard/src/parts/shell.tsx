import { Menu } from '@base-ui/react/menu';
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '~/api/client.ts';
import { useMe } from '~/api/queries.ts';
import { useSession } from '~/api/workspace-queries.ts';
import { Icon, type IconName } from './icon.tsx';
import { OwnerProvider, useOwner } from './owner.tsx';
import { Loading } from './page.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { remember } from './remember.ts';
import { ThemeSwitch } from './theme.tsx';

/** The pages that are reached from everywhere. A new page gets its line here. */
const places: readonly { href: string; name: string; icon: IconName; also?: string; forAdmin?: true }[] = [
  { href: '/', name: 'Home', icon: 'home' },
  { href: '/map', name: 'Flow map', icon: 'map' },
  { href: '/sources', name: 'Sources', icon: 'source' },
  { href: '/workflows', name: 'Workflows', icon: 'workflow', also: '/runs/' },
  { href: '/webhooks', name: 'Webhooks', icon: 'webhook' },
  { href: '/subscriptions', name: 'Subscriptions', icon: 'link' },
  { href: '/accounts', name: 'Accounts', icon: 'account' },
  { href: '/apps', name: 'Apps', icon: 'app' },
  { href: '/registry', name: 'Registry', icon: 'registry' },
  { href: '/templates', name: 'Templates', icon: 'template' },
  { href: '/workspace', name: 'Workspace', icon: 'people' },
  { href: '/instance', name: 'Instance', icon: 'gear', forAdmin: true },
];

/** What is around every page but the one to sign in: where to go, whose things are shown, who is signed in. */
export function Shell({ children }: { children: ReactNode }) {
  const me = useMe();
  if (me.data !== undefined) {
    return (
      <OwnerProvider me={me.data}>
        <Frame>{children}</Frame>
      </OwnerProvider>
    );
  }
  return (
    <main className="alone">
      {me.error === null ? (
        <Loading />
      ) : (
        <Problem error={me.error} what="The dashboard cannot be shown." onRetry={() => void me.refetch()} />
      )}
    </main>
  );
}

function Frame({ children }: { children: ReactNode }) {
  const [location] = useLocation();
  const [open, setOpen] = useState(false);
  const session = useSession();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new page closes the menu and is read from its beginning.
  useEffect(() => {
    setOpen(false);
    if (isFirst.current) isFirst.current = false;
    else main.current?.focus();
  }, [location]);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <div className="top-bar">
        <button
          type="button"
          className="button quiet"
          aria-expanded={open}
          aria-controls="side"
          onClick={() => setOpen(!open)}
        >
          <Icon name={open ? 'close' : 'menu'} />
          Menu
        </button>
        <Brand />
      </div>
      <nav id="side" className={open ? 'side open' : 'side'} aria-label="Main">
        <Brand />
        <OwnerSwitch />
        <ul>
          {places.map(({ href, name, icon, also, forAdmin }) => {
            if (forAdmin === true && session.data?.is_admin !== true) return null;
            const isHere =
              href === '/'
                ? location === '/'
                : location === href ||
                  location.startsWith(`${href}/`) ||
                  (also !== undefined && location.startsWith(also));
            return (
              <li key={href}>
                <Link href={href} aria-current={isHere ? 'page' : undefined} className="place">
                  <Icon name={icon} />
                  {name}
                </Link>
              </li>
            );
          })}
          <li>
            <a href="/docs" className="place">
              <Icon name="book" />
              API reference
            </a>
          </li>
        </ul>
        <div className="side-foot">
          <ThemeSwitch />
          <Account />
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

export function Brand() {
  return (
    <span className="brand">
      <img src="/favicon.svg" width="26" height="26" alt="" />
      Millrace
    </span>
  );
}

function OwnerSwitch() {
  const { me, ownerId, choose } = useOwner();
  return (
    <label className="owner-switch">
      <span>Showing</span>
      <select className="select" value={ownerId} onChange={(event) => choose(event.target.value)}>
        <option value={me.id}>My own ({visible(shortened(me.username, 40))})</option>
        {me.orgs?.map(({ id, name }) => (
          <option key={id} value={id}>
            Workspace {visible(shortened(name, 40))}
          </option>
        ))}
      </select>
    </label>
  );
}

function Account() {
  const { me } = useOwner();
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [problem, setProblem] = useState<unknown>();
  const ends = useSession().data?.expires_at;
  const signOut = async () => {
    try {
      await api('DELETE', '/v1/session');
    } catch (error) {
      // A session that has ended already is what was asked for.
      if (!(error instanceof ApiError && error.status === 401)) {
        setProblem(error);
        return;
      }
    }
    remember('signed-in', undefined);
    queries.clear();
    navigate('/sign-in', { replace: true });
  };
  return (
    <>
      {problem !== undefined && <Problem error={problem} what="You are still signed in." />}
      <Menu.Root>
        <Menu.Trigger className="button quiet who">
          <Icon name="user" />
          <bdi className="cut">{visible(shortened(me.username, 60))}</bdi>
          <Icon name="down" size={14} />
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner sideOffset={6} side="top" align="start" className="floating">
            <Menu.Popup className="menu">
              <p className="menu-note">
                Signed in as <bdi>{visible(shortened(me.email, 80))}</bdi>
                <br />
                <code>{me.id}</code>
                {ends !== undefined && ends !== null && (
                  <>
                    <br />
                    until {new Date(ends * 1000).toLocaleString()}
                  </>
                )}
              </p>
              <Menu.Item className="menu-item" onClick={() => void signOut()}>
                Sign out
              </Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
    </>
  );
}
