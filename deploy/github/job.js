'use strict';
// What action and hooks share. Nothing here may fail a job: `guarded` ends each step with the status 0, in bounded time.
const { spawn } = require('child_process');
const fs = require('fs');
const path = require('path');

// GitHub's runner has a process of its own for each job. The others run jobs themselves.
const RUNNER = /^(Runner\.Worker|act|(act_|gitea-|forgejo-)runner.*)$/;
const LOG_BYTES = 256 * 1024;
const REPORT_MS = 15000;
// What the agent gets of the environment: nothing with which a later step could act for the job, but what it may ask for itself.
const PASSED = /^(GITHUB_|RUNNER_|PLIMSOLL_|ACTIONS_ID_TOKEN_REQUEST_|SSL_CERT_|LC_)|^(PATH|HOME|XDG_(STATE|CONFIG)_HOME|CI|LANG|(https?|all|no)_proxy)$/i;
const SECRET = /^(GITHUB|RUNNER)_(.*_)?(TOKEN|SECRET|PASSWORD|KEY|PAT)$/i;

const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] || '').trim();
const servers = () => (input('server') || process.env.PLIMSOLL_SERVER || '').split(',').map((one) => one.trim()).filter(Boolean);
// the port for HTTP of a server
const http = (server) => `${(server.includes('://') ? server : `http://${server}`).replace(/\/+$/, '').replace(/:\d+$/, '')}:7411`;
// a line break would begin a line that the runner may read as a command
const say = (text) => console.log(`plimsoll: ${String(text).replace(/[\r\n]+/g, ' ')}`);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function guarded(seconds, step) {
  const end = (error) => {
    if (error) say(`${error.message || error}; the job goes on unmeasured`);
    process.exit(0);
  };
  for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, end);
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end());
  setTimeout(() => end(`no end within ${seconds} s`), seconds * 1000);
  step().then(() => end(), end);
}

// The fields of /proc/PID/stat behind the name, which may hold anything: state, parent, ... and as the 20th the time of its start.
function stat(pid) {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
    return { name, state: fields[0], parent: Number(fields[1]), started: fields[19] };
  } catch {
    return null;
  }
}

function runs(pid, started) {
  const now = stat(pid);
  return now !== null && now.started === started && now.state !== 'Z';
}

function signal(pid, started, name) {
  try {
    if (runs(pid, started)) process.kill(pid, name);
  } catch {
    // it has just ended
  }
}

// The process that runs the job, above this one.
function runner() {
  for (let pid = process.ppid, steps = 0; pid > 0 && steps < 64; steps++) {
    const found = stat(pid);
    if (!found) break;
    if (RUNNER.test(found.name)) return pid;
    pid = found.parent;
  }
  throw new Error('no process of a runner is seen here, as in a container: put `plimsoll run --` before the build');
}

// Opens a file that a job may have replaced by a link, or by a pipe that nothing reads.
function open(file, flags) {
  const handle = fs.openSync(file, flags | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  if (fs.fstatSync(handle).isFile()) return handle;
  fs.closeSync(handle);
  throw new Error('it is no regular file');
}

// The beginning of the agent's log.
function read(dir) {
  try {
    const bytes = Buffer.alloc(LOG_BYTES);
    const handle = open(path.join(dir, 'log'), fs.constants.O_RDONLY);
    return bytes.toString('utf8', 0, fs.readSync(handle, bytes, 0, LOG_BYTES, 0));
  } catch {
    return '';
  }
}

// Starts the agent beside the runner's process. Its folder is one that this user alone may enter.
async function start(dir, program, pid, { words = [], env = {}, cwd = '/' }) {
  const passed = Object.entries(process.env).filter(([name]) => PASSED.test(name) && !SECRET.test(name));
  const all = { ...Object.fromEntries(passed), ...env };
  const log = fs.openSync(path.join(dir, 'log'), 'ax', 0o600);
  const fixed = ['attach', '--pid', String(pid), '--runner', '--exit-file', path.join(dir, 'exit'), '--report', 'text'];
  const child = spawn(program, [...fixed, ...words], { cwd, detached: true, env: all, stdio: ['ignore', log, log] });
  const failed = new Promise((done) => child.on('error', done));
  if (!child.pid) throw new Error(`the agent does not run here: ${(await failed).message}`);
  child.unref();
  return { pid: child.pid, started: (stat(child.pid) || {}).started };
}

// Waits for the agent's report. A status that is not known is empty.
async function ended(dir, pid, started, status) {
  try {
    fs.writeFileSync(path.join(dir, 'exit.new'), `${status}\n`, { flag: 'wx' });
    fs.renameSync(path.join(dir, 'exit.new'), path.join(dir, 'exit'));
  } catch {
    signal(pid, started, 'SIGTERM');
  }
  const end = Date.now() + REPORT_MS;
  for (const [name, until] of [['SIGTERM', end], ['SIGKILL', end + 2000]]) {
    while (runs(pid, started) && Date.now() < until) await pause(50);
    signal(pid, started, name);
  }
}

// no text of a build becomes Markdown or HTML
const plain = (text) => text.replace(/[^\p{L}\p{N} .,:;·()/%=+'-]/gu, (one) => `&#${one.codePointAt(0)};`);

// The agent's own words, so that no number is worked out twice: a title in the third to the eleventh column, which a line below may lack.
const ROWS = { memory: 'need and request', killed: 'killed', verdict: 'verdict', 'next run': 'next size' };

function summary(log) {
  const rows = {};
  let title = '';
  for (const line of log.split('\n').filter((one) => one.startsWith('  '))) {
    title = line.slice(2, 11).trim() || title;
    if (ROWS[title] && !line.includes('full height is')) (rows[title] ??= []).push(plain(line.slice(12).trim()));
  }
  const table = Object.keys(ROWS).filter((name) => rows[name]).map((name) => `| ${ROWS[name]} | ${rows[name].join('<br>')} |\n`);
  const [, heading = 'no report'] = log.match(/^::group::plimsoll: (.*)$/m) || [];
  const [, attempt] = log.match(/^ {2}samples {3}delivered as ([\w.:/-]+)$/m) || [];
  const page = (input('page-url') || process.env.PLIMSOLL_PAGE_URL || http(servers()[0] || '')).replace(/\/+$/, '');
  const link = attempt ? `\n[What this job used](${encodeURI(page)}/attempts/${attempt})\n` : '';
  return `### Plimsoll: ${plain(heading)}\n\n| | |\n|---|---|\n${table.join('')}${link}`;
}

// Prints the agent's report, and writes the step summary.
function show(dir) {
  const log = read(dir);
  process.stdout.write(log);
  try {
    fs.writeSync(open(process.env.GITHUB_STEP_SUMMARY, fs.constants.O_WRONLY | fs.constants.O_APPEND), summary(log));
  } catch (error) {
    say(`the step summary cannot be written: ${error.message}`);
  }
}

module.exports = { ended, guarded, http, input, pause, read, runner, runs, say, servers, show, signal, start, stat };
