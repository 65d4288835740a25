/** Begins a notice on the channel of jobs that a run was ended from outside; its id follows. */
export const cancelNotice = 'cancel:';

/** Begins a notice on the channel of jobs that a wait of a branch was answered, while other steps of the run are under way. */
export const wakeNotice = 'wake:';
