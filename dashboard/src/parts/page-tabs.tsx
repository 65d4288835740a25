import { Tabs } from '@base-ui/react/tabs';
import type { ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';

export interface PageTab {
  id: string;
  name: string;
  content: ReactNode;
}

/** Parts of a page, one at a time. Which one stands in its address (`?tab=`), so that a link and a reload lead there. */
export function PageTabs({
  href,
  tabs,
  className,
}: {
  /** Of the page. */
  href: string;
  /** The first is what is shown unless the address says otherwise. */
  tabs: readonly PageTab[];
  className?: string;
}) {
  const [, navigate] = useLocation();
  const asked = new URLSearchParams(useSearch()).get('tab');
  const shown = tabs.find(({ id }) => id === asked) ?? tabs[0];
  return (
    <Tabs.Root
      className={className}
      value={shown?.id ?? null}
      onValueChange={(next) => navigate(`${href}?tab=${String(next)}`, { replace: true })}
    >
      <Tabs.List className="tabs">
        {tabs.map(({ id, name }) => (
          <Tabs.Tab key={id} value={id} className="tab">
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ id, content }) => (
        <Tabs.Panel key={id} value={id} className="panel">
          {content}
        </Tabs.Panel>
      ))}
    </Tabs.Root>
  );
}
