package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// dial returns a new connection. It makes as many attempts as go-redis (DialerRetries), but stops
// after a timeout. While the server is unreachable, later calls make one attempt each.
func (n *node) dial(ctx context.Context) (*conn, error) {
	for failures := 0; ; {
		c, reached, err := n.dialOnce(ctx)
		if err == nil || reached {
			return c, err
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return nil, ctxErr
		}
		failures++
		if isTimeout(err) || n.unreachable.Load() || failures >= n.opt.DialerRetries {
			n.unreachable.Store(true)
			return nil, err
		}
		pause := n.opt.DialerRetryTimeout
		if n.opt.DialerRetryBackoff != nil {
			pause = n.opt.DialerRetryBackoff(failures - 1)
		}
		if err := n.servers.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// dialOnce connects and logs in. reached reports whether a connection was made.
func (n *node) dialOnce(ctx context.Context) (_ *conn, reached bool, err error) {
	var c *conn
	usable := false
	n.servers.counters.dials.Add(1)
	defer func() {
		if !usable { // also after a panic of the user's code
			n.servers.counters.dialsFailed.Add(1)
			if c != nil {
				c.close()
			}
		}
	}()
	inner, cancel := n.dialContext(ctx)
	defer cancel()
	if c, err = n.connect(inner); err != nil {
		return nil, false, n.dialError(ctx, err, nil)
	}
	if err := c.handshake(inner, n.opt); isServerError(err) {
		return nil, true, err
	} else if err != nil {
		return nil, true, n.dialError(ctx, err, c.net.RemoteAddr())
	}
	if err := n.add(c); err != nil {
		return nil, true, err
	}
	n.unreachable.Store(false)
	usable = true
	return c, true, nil
}

// connect makes a connection with the Dialer. The caller then calls handshake.
func (n *node) connect(ctx context.Context) (*conn, error) {
	netConn, err := n.opt.Dialer(ctx, n.opt.Network, n.opt.Addr)
	if err != nil {
		return nil, err
	}
	if netConn == nil {
		return nil, errors.New("redisbuf: the Dialer returned no connection and no error")
	}
	return newConn(netConn, n.opt.ReadTimeout, n.opt.WriteTimeout), nil
}

// dialContext returns a context with the DialTimeout, which covers a dial and its handshake.
func (n *node) dialContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if n.opt.DialTimeout > 0 {
		return context.WithTimeout(ctx, n.opt.DialTimeout)
	}
	return ctx, func() {}
}

// dialError converts the error of a dial. If ctx has ended, it returns the context's error.
// Otherwise it returns err, wrapped if necessary so that isDialError recognizes it.
func (n *node) dialError(ctx context.Context, err error, addr net.Addr) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if isDialError(err) {
		return err
	}
	return &net.OpError{Op: "dial", Net: n.opt.Network, Addr: addr, Err: err}
}

// handshake sets the protocol, credentials, database and name of a new connection.
func (c *conn) handshake(ctx context.Context, opt *redis.Options) error {
	user, password, err := credentials(ctx, opt)
	if err != nil {
		return fmt.Errorf("redisbuf: credentials: %w", err)
	}
	if opt.Protocol != 2 {
		switch err := c.hello(ctx, user, password); {
		case err == nil:
			password = ""
		case !isServerError(err), redis.IsAuthError(err), redis.IsPermissionError(err),
			redis.IsLoadingError(err):
			return err
		case c.broken, c.hungUp():
			return err // the server rejects the connection
		}
		// The server does not support HELLO, so it speaks RESP2.
	}
	if password != "" {
		login := []string{"AUTH", password}
		if user != "" {
			login = []string{"AUTH", user, password}
		}
		if err := c.run(ctx, newTextCmd(login...)); err != nil {
			return err
		}
	}
	if opt.DB > 0 {
		if err := c.run(ctx, newTextCmd("SELECT", strconv.Itoa(opt.DB))); err != nil {
			return err
		}
	}
	if opt.ClientName != "" {
		return c.run(ctx, newTextCmd("CLIENT", "SETNAME", opt.ClientName))
	}
	return nil
}

func (c *conn) hello(ctx context.Context, user, password string) error {
	hello := []string{"HELLO", "3"}
	if password != "" {
		if user == "" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, password)
	}
	return c.run(ctx, newTextCmd(hello...))
}

func credentials(ctx context.Context, opt *redis.Options) (user, password string, err error) {
	switch {
	case opt.StreamingCredentialsProvider != nil:
		now, unsubscribe, err := opt.StreamingCredentialsProvider.Subscribe(noopListener{})
		if err != nil {
			return "", "", err
		}
		user, password = now.BasicAuth()
		if unsubscribe != nil {
			_ = unsubscribe() // the credentials are valid even if this fails
		}
		return user, password, nil
	case opt.CredentialsProviderContext != nil:
		return opt.CredentialsProviderContext(ctx)
	case opt.CredentialsProvider != nil:
		user, password = opt.CredentialsProvider()
		return user, password, nil
	}
	return opt.Username, opt.Password, nil
}

// noopListener ignores updates of credentials, because each new connection asks for the current
// credentials.
type noopListener struct{}

func (noopListener) OnNext(auth.Credentials) {}
func (noopListener) OnError(error)           {}

// A textCmd is a command with short arguments. It ignores a reply that is not an error.
type textCmd struct {
	commandInfo
	args []string
}

func newTextCmd(args ...string) *textCmd { return &textCmd{args: args} }

func (t *textCmd) compose(c *conn) error {
	c.queueCommand(t.args...)
	return nil
}

func (t *textCmd) read(c *conn) error { return c.skipReply() }

func (t *textCmd) weight(int64) int64 { return 0 }

func (t *textCmd) op() string { return t.args[0] }

func (t *textCmd) bytes() int64 { return 0 }

// A roleCmd sends HELLO and stores the role of the server from the reply. If the server does not
// support HELLO, the role is empty.
type roleCmd struct {
	textCmd
	role string
}

func newRoleCmd() *roleCmd { return &roleCmd{textCmd: textCmd{args: []string{"HELLO"}}} }

func (r *roleCmd) read(c *conn) error {
	h, err := c.readReply()
	if isServerError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pairs := h.n
	switch h.kind {
	case kindMap:
	case kindArray:
		pairs /= 2
	default:
		return badReply("%q where a greeting should be", h.kind)
	}
	if pairs > maxElements {
		return badReply("a greeting of %d pairs", pairs)
	}
	for range pairs {
		name, err := c.readWord()
		if err != nil {
			return err
		}
		if name != "role" {
			err = c.skipReply()
		} else {
			r.role, err = c.readWord()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *roleCmd) isReplica() bool { return r.role == "replica" || r.role == "slave" }

// maxWord is the maximum length, in bytes, of a word in the reply to a HELLO.
const maxWord = 64

// readWord reads a reply that is a text of at most maxWord bytes.
func (c *conn) readWord() (string, error) {
	h, err := c.readHeader()
	switch {
	case err != nil:
		return "", err
	case h.kind == kindStatus:
		return string(h.text), nil
	case h.kind != kindBulk || h.n > maxWord:
		return "", badReply("%q of %d where a word should be", h.kind, h.n)
	}
	text := make([]byte, h.n)
	if err := c.readPart(text); err != nil {
		return "", err
	}
	return string(text), c.readEnd()
}
