import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useRef } from 'react';

/** How near to its end a list asks for more. */
const needMoreAt = 20;

/** A long list of rows of one height, of which only those in view are there. */
export function VirtualList<Row>({
  rows,
  total,
  rowPx = 60,
  label,
  needMore,
  children,
}: {
  rows: readonly Row[];
  total: number;
  rowPx?: number;
  label: string;
  /** Called, perhaps often, when the end of `rows` comes near. */
  needMore: () => void;
  children: (row: Row) => ReactNode;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    overscan: 10,
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastShown >= rows.length - needMoreAt) needMore();
  }, [lastShown, rows.length, needMore]);
  return (
    <div className="list card flush" ref={scroller}>
      <ul aria-label={label} style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, start, key }) => {
          const row = rows[index];
          return row === undefined ? null : (
            <li
              key={key}
              aria-setsize={total}
              aria-posinset={index + 1}
              style={{ transform: `translateY(${start}px)` }}
            >
              {children(row)}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
