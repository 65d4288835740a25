/** What the sources of this app have in common. Feeds need no account. */
export default {
  type: 'app',
  app: 'rss',
  propDefinitions: {
    url: {
      type: 'string',
      label: 'Feed URL',
      description: 'Address of an RSS, Atom or JSON feed',
    },
    timer: {
      type: '$.interface.timer',
      label: 'How often to look',
      description: 'The feed is asked for new items each time',
      default: { intervalSeconds: 900 },
    },
  },
};
