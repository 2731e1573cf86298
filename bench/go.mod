module github.com/millrace-io/millrace/bench

go 1.26.0

require (
	github.com/bytedance/gopkg v0.1.4
	github.com/cloudwego/gopkg v0.1.4
	github.com/klauspost/readahead v1.4.0
	github.com/millrace-io/millrace v0.0.0
	github.com/prometheus/procfs v0.22.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/millrace-io/millrace => ../
