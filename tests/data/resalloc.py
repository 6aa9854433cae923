"""A server that speaks Resalloc's protocol, with its tickets in a file: resalloc.py FILE PORT. It prints its port."""
import random, socketserver, sqlite3, sys, threading, time, xmlrpc.server

lock = threading.Lock()
tickets = sqlite3.connect(sys.argv[1], check_same_thread=False)
tickets.execute("create table if not exists ticket (number integer primary key autoincrement, open integer)")


class Server(socketserver.ThreadingMixIn, xmlrpc.server.SimpleXMLRPCServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


class Handler(xmlrpc.server.SimpleXMLRPCRequestHandler):
    rpc_paths = ("/", "/RPC2")


def state(number):
    rows = tickets.execute("select open from ticket where number = ?", (number,)).fetchall()
    return rows[0][0] if rows else None


def takeTicket(tags, sandbox=None):
    with lock, tickets:
        number = tickets.execute("insert into ticket (open) values (1)").lastrowid
    # the ticket is there, and its answer is on its way
    time.sleep(random.random() * 0.02)
    return number


def collectTicket(number):
    with lock:
        found = state(number)
    if found is None:
        return {"ready": None, "output": None, "closed": None, "failed": None}
    # as bytes: so are they in Resalloc's database
    return {"ready": True, "output": b"---\nhost: machine-%d\n" % number, "closed": not found, "failed": False}


def closeTicket(number):
    with lock, tickets:
        if state(number) is None:
            raise Exception("no such ticket %d" % number)
        tickets.execute("update ticket set open = 0 where number = ?", (number,))
    time.sleep(random.random() * 0.02)


def openTickets():
    """Not of Resalloc: for the test."""
    with lock:
        return [row[0] for row in tickets.execute("select number from ticket where open")]


server = Server(("127.0.0.1", int(sys.argv[2])), Handler, logRequests=False, allow_none=True)
for method in takeTicket, collectTicket, closeTicket, openTickets:
    server.register_function(method)
print(server.server_address[1], flush=True)
server.serve_forever()
