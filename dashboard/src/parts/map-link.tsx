import { Link } from 'wouter';
import { Icon } from './icon.tsx';

/** To the flow map, with one thing in the middle. */
export function MapLink({ id, ownerId }: { id: string; ownerId: string }) {
  return (
    <Link href={`/map?focus=${id}&owner=${ownerId}`} className="button">
      <Icon name="map" />
      See in the map
    </Link>
  );
}
