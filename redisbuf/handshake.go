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
		return user, password, unsubscribe()
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

// command executes a command whose reply does not matter unless it is an error.
func (c *conn) command(ctx context.Context, args ...string) error {
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
				err = c.readAny()
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
