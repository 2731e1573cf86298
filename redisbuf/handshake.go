package redisbuf

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// introduce does what a new connection begins with: protocol, credentials, name and database.
func (c *conn) introduce(ctx context.Context, opt *redis.Options) error {
	user, password, err := credentials(ctx, opt)
	if err != nil {
		return fmt.Errorf("redisbuf: credentials: %w", err)
	}
	if opt.Protocol != 2 {
		hello := []string{"HELLO", "3"}
		if password != "" {
			hello = append(hello, "AUTH", orDefault(user), password)
		}
		err := c.command(ctx, hello...)
		if err == nil {
			password = ""
		} else if !isServerError(err) || redis.IsAuthError(err) || redis.IsPermissionError(err) || redis.IsLoadingError(err) {
			return err
		} else if c.broken || c.gone() {
			return err // whatever was asked: the server does not want the connection
		}
		// A server that does not know HELLO speaks the older protocol.
	}
	if password != "" {
		login := []string{"AUTH", password}
		if user != "" {
			login = []string{"AUTH", user, password}
		}
		if err := c.command(ctx, login...); err != nil {
			return err
		}
	}
	if opt.DB > 0 {
		if err := c.command(ctx, "SELECT", fmt.Sprint(opt.DB)); err != nil {
			return err
		}
	}
	if opt.ClientName != "" {
		return c.command(ctx, "CLIENT", "SETNAME", opt.ClientName)
	}
	return nil
}

func orDefault(user string) string {
	if user == "" {
		return "default"
	}
	return user
}

// credentials returns what a connection that is made now logs in with.
func credentials(ctx context.Context, opt *redis.Options) (user, password string, err error) {
	switch {
	case opt.StreamingCredentialsProvider != nil:
		now, unsubscribe, err := opt.StreamingCredentialsProvider.Subscribe(deaf{})
		if err != nil {
			return "", "", err
		}
		user, password = now.BasicAuth()
		if unsubscribe != nil {
			_ = unsubscribe() // the credentials are good, and nobody listens
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

// deaf does not listen to credentials that come later: connections that are made then ask for them.
type deaf struct{}

func (deaf) OnNext(auth.Credentials) {}
func (deaf) OnError(error)           {}

// isReplica asks the server whether it follows another one. One that is too old to know HELLO does not say.
func (c *conn) isReplica(ctx context.Context) (replica bool, err error) {
	err = c.converse(ctx, func() error {
		role, err := c.readRole()
		replica = role == "replica" || role == "slave"
		return err
	}, "HELLO")
	if isServerError(err) {
		err = nil
	}
	return replica, err
}

// command executes a command whose reply does not matter unless it is an error.
func (c *conn) command(ctx context.Context, args ...string) error {
	return c.converse(ctx, c.readAny, args...)
}

// converse executes a command, the reply to which is read by read.
func (c *conn) converse(ctx context.Context, read func() error, args ...string) error {
	err := c.begin(ctx)
	if err == nil {
		size := 0
		for _, a := range args {
			size += len(a)
		}
		if err = c.compose(len(args), size); err == nil {
			c.array(len(args))
			for _, a := range args {
				c.arg(a)
			}
			if err = c.awaitReply(); err == nil {
				err = read()
			}
		}
		err = c.lastWords(err)
	}
	return c.finish(ctx, err)
}

// readAny reads a reply that does not matter unless it is an error.
func (c *conn) readAny() error {
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	return c.skipRest(h, maxNesting)
}

// readRole reads the reply to a HELLO, and returns what it says that the server is.
func (c *conn) readRole() (role string, err error) {
	h, err := c.readHeader()
	if err != nil {
		return "", err
	}
	pairs := h.n
	switch h.kind {
	case kindMap:
	case kindArray:
		pairs /= 2
	default:
		return "", badReply("%q where a greeting should be", h.kind)
	}
	if pairs > maxElements {
		return "", badReply("a greeting of %d pairs", pairs)
	}
	for range pairs {
		name, err := c.readWord()
		if err != nil {
			return "", err
		}
		if name != "role" {
			err = c.readAny()
		} else {
			role, err = c.readWord()
		}
		if err != nil {
			return "", err
		}
	}
	return role, nil
}

// readWord reads a short text.
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
	err = c.readValue(text, 0)
	return string(text), err
}

// maxWord bounds a word in a greeting.
const maxWord = 64
