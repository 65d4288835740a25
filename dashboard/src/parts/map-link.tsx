import { Link } from 'wouter';
import { Icon } from './icon.tsx';

/** A link to the flow map, with one object in the middle. */
export function MapLink({ id, ownerId }: { id: string; ownerId: string }) {
  return (
    <Link href={`/map?focus=${id}&owner=${ownerId}`} className="button">
      <Icon name="map" />
      See in the map
    </Link>
  );
}
