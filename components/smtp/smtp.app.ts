/** A mail server that takes mail by SMTP. */
export default {
  type: 'app',
  app: 'smtp',
};
