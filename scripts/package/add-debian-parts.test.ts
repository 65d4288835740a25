import assert from 'node:assert/strict';
import { test } from 'node:test';
import { debianParts, distributionOf } from './add-debian-parts.ts';

const status = `Package: bubblewrap
Status: install ok installed
Architecture: amd64
Version: 0.8.0-2+deb12u1
Description: utility for unprivileged chroot
 Version: of nothing

Package: libstdc++6
Status: hold ok installed
Architecture: amd64
Version: 1:12.2.0-14

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1.0
`;

test('every installed package is a part, by the name that scanners know, and no removed one', () => {
  assert.deepEqual(
    debianParts(status, 'debian-12').map(({ name, version, purl }) => [name, version, purl]),
    [
      [
        'bubblewrap',
        '0.8.0-2+deb12u1',
        'pkg:deb/debian/bubblewrap@0.8.0-2%2Bdeb12u1?arch=amd64&distro=debian-12',
      ],
      [
        'libstdc++6',
        '1:12.2.0-14',
        'pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14?arch=amd64&distro=debian-12',
      ],
    ],
  );
});

test('the distribution is read from os-release, with or without quotes', () => {
  assert.equal(distributionOf('NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'), 'debian-12');
  assert.equal(distributionOf('NAME=Linux\n'), '');
});
