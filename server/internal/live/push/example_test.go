package push_test

import (
	"fmt"

	"github.com/millrace-io/millrace/server/internal/live/push"
)

// Two routes, for one stream and for all streams with such names.
func Example() {
	var routes push.Routes
	err := routes.Set("live/show=rtmps://example.com/app/{key} live/cam-*=rtmp://example.net/live/{name}")
	fmt.Println(len(routes), err)
	fmt.Println(routes[0].Matches("show"), routes[1].Matches("cam-1"), routes[1].Matches("show"))
	// Output:
	// 2 <nil>
	// true true false
}
