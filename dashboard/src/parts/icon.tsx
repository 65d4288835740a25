const paths = {
  home: 'M3 11.5 12 4l9 7.5M5.500 10v9.500h13V10',
  source:
    'M12 13.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3ZM8 16a5.600 5.600 0 0 1 0-8m8 0a5.600 5.600 0 0 1 0 8M5 19A9.900 9.900 0 0 1 5 5m14 0a9.900 9.900 0 0 1 0 14',
  workflow: 'M5 3.500h6v5H5zM13 15.500h6v5h-6zM8 8.500V14a4 4 0 0 0 4 4h1',
  webhook: 'M4 12h11m-4-5 5 5-5 5M20 5v14',
  account: 'M8 15.500a3.500 3.500 0 1 1 3.200-5H21v3h-3V16h-3v-2.500h-3.800a3.500 3.500 0 0 1-3.200 2Z',
  app: 'M4 4h6.500v6.500H4zM13.500 4H20v6.500h-6.500zM4 13.500h6.500V20H4zM13.500 13.500H20V20h-6.500z',
  registry: 'm4 8 8-4 8 4v8l-8 4-8-4ZM4 8l8 4 8-4M12 12v8',
  template: 'M4 4h16v5H4zM4 13h7v7H4zM15 13h5v7h-5z',
  copy: 'M9 9h10v11H9zM15 9V4H5v11h4',
  check: 'm5 12.500 4.500 4.500L19 7.500',
  plus: 'M12 5v14M5 12h14',
  minus: 'M5 12h14',
  map: 'M3.500 9h5v6h-5zM15.500 4h5v6h-5zM15.500 14h5v6h-5zM8.500 12h3m4-5h-2a2 2 0 0 0-2 2v6a2 2 0 0 0 2 2h2',
  link: 'M10 14a4 4 0 0 0 6 .500l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6-.500l-3 3a4 4 0 0 0 6 6l1-1',
  search: 'M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12Zm4.500-1.500L20 20',
  pause: 'M9 5v14M15 5v14',
  play: 'M8 5.500v13l10-6.500z',
  menu: 'M4 7h16M4 12h16M4 17h16',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm0-13v2m0 14v2M3 12h2m14 0h2M5.600 5.600 7 7m10 10 1.400 1.400M5.600 18.400 7 17M17 7l1.400-1.400',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500Z',
  auto: 'M12 3a9 9 0 1 0 0 18ZM12 3a9 9 0 0 1 0 18',
  user: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm-8 8.500c1-4 4-6 8-6s7 2 8 6',
  people:
    'M9 11.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7ZM2.500 20c.700-4 3-6 6.500-6s5.800 2 6.500 6M16 5a3.500 3.500 0 0 1 0 6.500m2 3c2 .800 3.200 2.600 3.500 5.500',
  gear: 'M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-12v3m0 12v3M3 12h3m12 0h3M5.600 5.600l2.100 2.100m8.600 8.600 2.100 2.100M5.600 18.400l2.100-2.100m8.600-8.600 2.100-2.100',
  chevron: 'm9 6 6 6-6 6',
  down: 'm6 9 6 6 6-6',
  up: 'm6 15 6-6 6 6',
  close: 'M6 6l12 12M18 6 6 18',
  warning: 'M12 4 2.500 20h19ZM12 10v4.500m0 2.500v.500',
  book: 'M5 4h10a4 4 0 0 1 4 4v12H9a4 4 0 0 1-4-4ZM9 8.500h6M9 12.500h6',
} as const;

export type IconName = keyof typeof paths;

/** Always beside text, or inside an element with a label: it is hidden from screen readers. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
