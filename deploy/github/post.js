'use strict';
// After the job's steps: says how the job ended, waits for the agent's report, shows it, and clears up.
const fs = require('fs');
const { ended, guarded, input, show } = require('./job');

guarded(20, async () => {
  const { STATE_dir: dir, STATE_pid: pid, STATE_started: started } = process.env;
  if (!dir || !fs.existsSync(dir)) return;
  try {
    // a job that was cancelled has no status of its own
    await ended(dir, Number(pid), started, { success: '0', failure: '1' }[input('status')] ?? '');
    show(dir);
  } finally {
    if (/\/job-[A-Za-z0-9]{6}$/.test(dir)) fs.rmSync(dir, { recursive: true, force: true });
  }
});
