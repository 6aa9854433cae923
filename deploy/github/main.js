'use strict';
// Before the job's steps: fetches the agent, and starts it beside the process that runs the job.
const { spawnSync } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { guarded, http, input, pause, read, runner, runs, say, servers, signal, start } = require('./job');

const FETCH_MS = 20000;
const AGENT_BYTES = 256 * 1024 * 1024;

function platform() {
  const system = process.env.RUNNER_OS || process.platform;
  const processor = { x64: 'amd64', arm64: 'arm64' }[process.arch];
  if (process.platform !== 'linux' || !/^linux$/i.test(system) || !processor) {
    throw new Error(`there is no agent for ${system} on ${process.arch}`);
  }
  return `linux-${processor}`;
}

const clear = (dir) => fs.rmSync(dir, { recursive: true, force: true });

// What jobs without an end have left. No job of GitHub runs for longer than five days.
function sweep(parent) {
  for (const name of fs.readdirSync(parent)) {
    const found = fs.lstatSync(path.join(parent, name), { throwIfNoEntry: false });
    if (/^job-[A-Za-z0-9]{6}$/.test(name) && found && Date.now() - found.mtimeMs > 7 * 86400000) clear(path.join(parent, name));
  }
}

// A folder that this user alone may enter, and that takes a program. A job's own HOME and TMPDIR do not matter.
function folder() {
  for (const parent of [path.join(os.userInfo().homedir, '.plimsoll'), '/tmp', '/var/tmp', '/dev/shm']) {
    let dir;
    try {
      if (parent.endsWith('.plimsoll')) {
        fs.mkdirSync(parent, { recursive: true, mode: 0o700 });
        sweep(parent);
      }
      dir = fs.mkdtempSync(path.join(parent, 'job-'));
      const program = path.join(dir, 'agent');
      fs.writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
      if (spawnSync(program, { timeout: 5000 }).status === 0) return dir;
    } catch {
      // the next one may do
    }
    if (dir) clear(dir);
  }
  throw new Error('no folder takes a program (the home directory, /tmp, /var/tmp, /dev/shm)');
}

function get(url, bytes, until) {
  return new Promise((done, fail) => {
    let late;
    const end = (settle, value) => (clearTimeout(late), settle(value));
    const secure = url.protocol === 'https:';
    // whatever NODE_TLS_REJECT_UNAUTHORIZED says
    const options = { agent: false, rejectUnauthorized: true, ca: secure && process.env.PLIMSOLL_CA ? fs.readFileSync(process.env.PLIMSOLL_CA) : undefined };
    const asked = require(secure ? 'https' : 'http').get(url, options, (answer) => {
      const parts = [];
      let size = 0;
      if (answer.statusCode !== 200) asked.destroy(new Error(`it answers ${answer.statusCode}`));
      answer.on('data', (part) => {
        parts.push(part);
        if ((size += part.length) > bytes) asked.destroy(new Error('it is too large'));
      });
      answer.on('end', () => (answer.complete ? end(done, Buffer.concat(parts)) : end(fail, new Error('it breaks off'))));
      answer.on('error', (error) => end(fail, error));
    });
    asked.on('error', (error) => end(fail, error));
    late = setTimeout(() => asked.destroy(new Error('no answer in time')), Math.max(1, until - Date.now()));
  });
}

// The agent from the first address that has it. A sum of the workflow proves it, or https, or that it comes from this machine; then the
// server's list of sums shows what was cut or mixed up.
async function agent(name) {
  const pins = input('sha256').toLowerCase().split(/[\s,]+/).filter(Boolean);
  const given = input('agent-url').split(',').map((one) => one.trim()).filter(Boolean);
  const bases = given.length ? given : servers().map((one) => `${http(one)}/agent`);
  let why = new Error('the input `server` names no server');
  const end = Date.now() + FETCH_MS;
  for (const [place, base] of bases.entries()) {
    const until = Date.now() + (end - Date.now()) / (bases.length - place);
    try {
      const url = new URL(`${base.replace(/\/+$/, '')}/${name}`);
      const here = /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(url.hostname);
      if (!pins.length && url.protocol !== 'https:' && !here) {
        throw new Error('it does not prove that the agent is the right one: set the input `sha256`, or use https');
      }
      const program = await get(url, AGENT_BYTES, until);
      const sum = crypto.createHash('sha256').update(program).digest('hex');
      const sums = pins.length ? pins : String(await get(new URL('sha256sums', url), 65536, until)).split(/\s+/);
      if (!sums.includes(sum)) throw new Error(`it has none of the sums in ${pins.length ? 'the input `sha256`' : 'sha256sums'}`);
      return program;
    } catch (error) {
      why = new Error(`the agent of ${base} is not run: ${error.message}`);
    }
  }
  throw why;
}

// What the agent needs besides what it is passed of the environment.
function settings() {
  const env = { PLIMSOLL_SERVER: servers().join(','), PLIMSOLL_TOKEN_AUDIENCE: input('audience') };
  if (input('token')) env.PLIMSOLL_TOKEN = input('token');
  const matrix = input('matrix');
  if (!process.env.PLIMSOLL_MATRIX && matrix !== 'null' && matrix !== '{}') env.PLIMSOLL_MATRIX = matrix;
  const words = input('key').split('\n').map((line) => line.trim()).filter(Boolean).flatMap((line) => ['--key', line]);
  return { words, env, cwd: process.cwd() };
}

// The first thing that the agent says, or why it has ended.
async function firstLine(dir, pid, started) {
  for (let look = 0; look < 60; look++) {
    const text = read(dir);
    const line = text.split('\n').find((one) => one.startsWith('plimsoll: follows'));
    if (line) return say(line.slice('plimsoll: '.length));
    if (!runs(pid, started)) throw new Error(text.trim().replace(/^plimsoll: /, '') || 'the agent ended at once');
    await pause(50);
  }
}

guarded(30, async () => {
  if (process.env.PLIMSOLL_MEASURE === 'off') return;
  const name = platform();
  const pid = runner();
  const program = await agent(name);
  const dir = folder();
  let child = {};
  try {
    fs.rmSync(path.join(dir, 'agent'));
    fs.writeFileSync(path.join(dir, 'agent'), program, { mode: 0o700, flag: 'wx' });
    child = await start(dir, path.join(dir, 'agent'), pid, settings());
    // at once, so that the last step ends it whatever happens here
    fs.appendFileSync(process.env.GITHUB_STATE, `dir=${dir}\npid=${child.pid}\nstarted=${child.started}\n`);
    await firstLine(dir, child.pid, child.started);
  } catch (error) {
    signal(child.pid, child.started, 'SIGKILL');
    clear(dir);
    throw error;
  }
});
