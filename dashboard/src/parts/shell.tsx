import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { MillraceError } from '#sdk';
import { api } from '~/api/client.ts';
import { useMe } from '~/api/queries.ts';
import { useIsInstanceAdmin } from '~/api/rights.ts';
import { useSession } from '~/api/workspace-queries.ts';
import { Icon, type IconName } from './icon.tsx';
import { OwnerProvider, useOwner } from './owner.tsx';
import { Loading } from './page.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { remember } from './remember.ts';
import { ThemeSwitch } from './theme.tsx';

interface Place {
  href: string;
  name: string;
  icon: IconName;
  /** The beginnings of the addresses of other pages that belong to it. */
  also?: readonly string[];
  forAdmin?: true;
  /** A page of the service that is none of the dashboard. */
  isOutside?: true;
}

/** The pages that are reached from everywhere, what belongs together in one list. A new page gets its line here. */
const groups: readonly { name: string; places: readonly Place[] }[] = [
  {
    name: 'Overview',
    places: [
      { href: '/', name: 'Home', icon: 'home' },
      { href: '/map', name: 'Flow map', icon: 'map' },
    ],
  },
  {
    name: 'Events',
    places: [
      { href: '/sources', name: 'Sources', icon: 'source' },
      { href: '/workflows', name: 'Workflows', icon: 'workflow', also: ['/runs/', '/imports'] },
      { href: '/webhooks', name: 'Webhooks', icon: 'webhook', also: ['/dead-letters'] },
      { href: '/subscriptions', name: 'Subscriptions', icon: 'link' },
    ],
  },
  {
    name: 'Building blocks',
    places: [
      { href: '/accounts', name: 'Accounts', icon: 'account' },
      { href: '/apps', name: 'Apps', icon: 'app' },
      { href: '/registry', name: 'Registry', icon: 'registry' },
      { href: '/templates', name: 'Templates', icon: 'template' },
    ],
  },
  {
    name: 'Administration',
    places: [
      { href: '/workspace', name: 'Workspace', icon: 'people' },
      { href: '/instance', name: 'Instance', icon: 'gear', forAdmin: true },
      { href: '/docs', name: 'Docs', icon: 'book', isOutside: true },
    ],
  },
];

/** The frame of every page except sign-in: navigation, the owner whose objects are shown, and the user. */
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
        <div className="places">
          {groups.map(({ name, places }) => (
            <PlaceGroup key={name} name={name} places={places} />
          ))}
        </div>
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

function PlaceGroup({ name, places }: { name: string; places: readonly Place[] }) {
  const [location] = useLocation();
  const id = useId();
  const isAdmin = useIsInstanceAdmin();
  return (
    <>
      <p id={id} className="place-group">
        {name}
      </p>
      <ul aria-labelledby={id}>
        {places.map((place) => {
          const { href, icon, forAdmin, isOutside } = place;
          if (forAdmin === true && !isAdmin) return null;
          const inside = (
            <>
              <Icon name={icon} />
              {place.name}
            </>
          );
          return (
            <li key={href}>
              {isOutside === true ? (
                <a href={href} className="place">
                  {inside}
                </a>
              ) : (
                <Link
                  href={href}
                  aria-current={isWithin(location, place) ? 'page' : undefined}
                  className="place"
                >
                  {inside}
                </Link>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

function isWithin(location: string, { href, also }: Place): boolean {
  if (location === href) return true;
  if (also?.some((beginning) => location.startsWith(beginning)) === true) return true;
  return href !== '/' && location.startsWith(`${href}/`);
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
  const [open, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const id = useId();
  const session = useSession().data;
  const ends = session?.expires_at;
  useEffect(() => {
    // Sign-in with a provider ends with a redirect, not on the sign-in page.
    if (ends !== undefined && ends !== null) remember('signed-in', '1');
  }, [ends]);
  const signOut = async () => {
    try {
      await api('DELETE', '/v1/session');
    } catch (error) {
      // A session that has ended already is signed out, as requested.
      if (!(error instanceof MillraceError && error.status === 401)) {
        setProblem(error);
        return;
      }
    }
    remember('signed-in', undefined);
    queries.clear();
    if (session?.sign_out_url) window.location.assign(session.sign_out_url);
    else navigate('/sign-in', { replace: true });
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes what a button of it opened.
    <div
      className="account-foot"
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !open) return;
        setOpen(false);
        opener.current?.focus();
      }}
    >
      {problem !== undefined && <Problem error={problem} what="You are still signed in." />}
      {open && (
        <div id={id} className="account-note">
          <p className="break">
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
          <button type="button" className="button small" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      )}
      <button
        type="button"
        ref={opener}
        className="button quiet small who"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
      >
        <Icon name="user" size={16} />
        <bdi className="cut">{visible(shortened(me.username, 60))}</bdi>
        <Icon name={open ? 'down' : 'up'} size={14} />
      </button>
    </div>
  );
}
