package toolgate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TokenSource gives the bearer token to show to the service. It is asked before every RPC, so it should keep a token for
// as long as it is good. An empty token shows none.
type TokenSource func(ctx context.Context) (string, error)

// bearer shows a token with every RPC.
type bearer struct{ source TokenSource }

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.source(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "no token could be got: %v", err)
	}
	if token == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity lets tokens travel over Unix sockets and loopback; whoever writes http:// for another host has
// something else that encrypts.
func (bearer) RequireTransportSecurity() bool { return false }

// environmentToken reads the token that the toolgate program would show.
func environmentToken() (TokenSource, error) {
	token := os.Getenv("TOOLGATE_TOKEN")
	if file := os.Getenv("TOOLGATE_TOKEN_FILE"); token == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("toolgate: the file of TOOLGATE_TOKEN_FILE cannot be read: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token == "" {
		return nil, nil
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// tlsFromFiles makes the TLS configuration of PEM files. An empty name leaves its part at the default.
func tlsFromFiles(ca, certificate, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("toolgate: the authorities cannot be read: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("toolgate: %s holds no certificate in PEM", ca)
		}
	}
	if (certificate == "") != (key == "") {
		return nil, errors.New("toolgate: a client certificate takes both its file and that of its key")
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("toolgate: the client certificate cannot be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
