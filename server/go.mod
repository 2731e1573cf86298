module github.com/millrace-io/millrace/server

go 1.26.0

require (
	github.com/bluenviron/gortmplib v1.0.1
	github.com/bluenviron/mediacommon/v2 v2.9.3
	github.com/chromedp/chromedp v0.22.1
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/millrace-io/millrace v0.0.0
	github.com/millrace-io/millrace/redisbuf v0.0.0
	github.com/pires/go-proxyproto v0.15.0
	github.com/prometheus/client_golang v1.25.0
	github.com/prometheus/procfs v0.22.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/net v0.60.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
)

require (
	golang.org/x/text v0.43.0 // indirect
)

require (
	github.com/abema/go-mp4 v1.7.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.58.0
	google.golang.org/protobuf v1.36.12 // indirect
)
