import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef } from 'react';
import { useLocation, useSearch } from 'wouter';

export interface PageTab {
  id: string;
  name: string;
  content: ReactNode;
}

/** Parts of a page, one at a time. The URL names it (`?tab=`), so that a link and a reload show it. */
export function PageTabs({
  href,
  tabs,
  className,
}: {
  /** The URL of the page. */
  href: string;
  /** The first is shown unless the URL names another one. */
  tabs: readonly PageTab[];
  className?: string;
}) {
  const [, navigate] = useLocation();
  const asked = new URLSearchParams(useSearch()).get('tab');
  const shown = tabs.find(({ id }) => id === asked) ?? tabs[0];
  const prefix = useId();
  const list = useRef<HTMLDivElement>(null);
  const at = shown === undefined ? -1 : tabs.indexOf(shown);
  useEffect(() => {
    // On a narrow screen they are wider than it; only they are scrolled, and not the page.
    const tab = list.current?.children[at];
    if (tab instanceof HTMLElement && list.current !== null)
      list.current.scrollLeft = tab.offsetLeft - list.current.offsetLeft - tab.offsetWidth / 2;
  }, [at]);
  if (shown === undefined) return null;
  return (
    <div className={className}>
      <div ref={list} role="tablist" className="tabs">
        {tabs.map(({ id, name }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`${prefix}tab-${id}`}
            aria-selected={id === shown.id}
            aria-controls={id === shown.id ? `${prefix}panel` : undefined}
            tabIndex={id === shown.id ? 0 : -1}
            className="tab"
            onKeyDown={walk}
            onClick={() => navigate(`${href}?tab=${id}`, { replace: true })}
          >
            {name}
          </button>
        ))}
      </div>
      <div
        key={shown.id}
        role="tabpanel"
        id={`${prefix}panel`}
        aria-labelledby={`${prefix}tab-${shown.id}`}
        tabIndex={-1}
        className="panel"
      >
        {shown.content}
      </div>
    </div>
  );
}

/** Arrows, Home and End go to another tab; Enter or Space opens it, since what it shows may have to be loaded. */
function walk(event: KeyboardEvent<HTMLButtonElement>) {
  const all = [...(event.currentTarget.parentElement?.querySelectorAll<HTMLElement>('[role=tab]') ?? [])];
  const at = all.indexOf(event.currentTarget);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all.at(to % all.length)?.focus();
}
