package push_test

import (
	"fmt"

	"github.com/millrace-io/millrace/server/internal/live/push"
)

// Two routes, for one stream and for all streams with such names. The output has no key.
func Example() {
	var routes push.Routes
	err := routes.Set("live/show=rtmps://example.com/app/{key} live/cam-*=rtmp://example.net/live/{name}")
	fmt.Println(&routes, err)
	fmt.Println(routes[0].Matches("show"), routes[1].Matches("cam-1"), routes[1].Matches("show"))
	// Output:
	// live/show live/cam-* <nil>
	// true true false
}
