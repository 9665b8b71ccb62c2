package toolgate

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// DefaultTarget is where a service listens unless it is told otherwise.
const DefaultTarget = "http://127.0.0.1:50551"

const defaultPort = "50551"

// endpoint is a target in the terms of the transport: a Unix socket or an address.
type endpoint struct {
	socket  string
	address string
	tls     bool
}

// parseTarget understands unix:/path, http://host:port, https://host:port and host:port. The last one is plain text on
// this machine and TLS otherwise.
func parseTarget(target string) (endpoint, error) {
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return endpoint{}, badTarget(target, "the path is missing in unix:/PATH")
		}
		return endpoint{socket: path}, nil
	}
	if !strings.Contains(target, "://") {
		host, _, err := net.SplitHostPort(target)
		if err != nil {
			return endpoint{}, badTarget(target, "write unix:/PATH, http://HOST:PORT, https://HOST:PORT or HOST:PORT")
		}
		return endpoint{address: target, tls: !isLoopback(host)}, nil
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return endpoint{}, badTarget(target, err.Error())
	}
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return endpoint{}, badTarget(target, "the scheme is neither http, https nor unix")
	case parsed.Hostname() == "":
		return endpoint{}, badTarget(target, "the host is missing")
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil:
		return endpoint{}, badTarget(target, "nothing but host and port may follow the scheme")
	}
	port := parsed.Port()
	if port == "" {
		port = map[string]string{"http": defaultPort, "https": "443"}[parsed.Scheme]
	}
	return endpoint{address: net.JoinHostPort(parsed.Hostname(), port), tls: parsed.Scheme == "https"}, nil
}

func badTarget(target, why string) error {
	return fmt.Errorf("toolgate: %q is no address of a server: %s", target, why)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
