package toolgate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// certificate makes a certificate that signs itself, for this machine, and returns its PEM files.
func certificate(t *testing.T) (certificateFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	folder := t.TempDir()
	certificateFile, keyFile = filepath.Join(folder, "certificate"), filepath.Join(folder, "key")
	check(t, os.WriteFile(certificateFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded}), 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes}), 0o600))
	return certificateFile, keyFile
}

// guard answers who shows a certificate and a token.
type guard struct {
	toolgatev1.UnimplementedInfoServiceServer
}

func (guard) GetServerInfo(ctx context.Context, _ *toolgatev1.GetServerInfoRequest) (*toolgatev1.GetServerInfoResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	if tokens := headers.Get("authorization"); len(tokens) != 1 || tokens[0] != "Bearer secret" {
		return nil, status.Errorf(codes.Unauthenticated, "shown was %v", tokens)
	}
	return &toolgatev1.GetServerInfoResponse{Version: "1"}, nil
}

func TestCredentialsAreShown(t *testing.T) {
	certificateFile, keyFile := certificate(t)
	pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	check(t, err)
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(certificateFile)
	check(t, err)
	authorities.AppendCertsFromPEM(text)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	toolgatev1.RegisterInfoServiceServer(server, guard{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})

	info := func(options ...toolgate.Option) (*toolgatev1.GetServerInfoResponse, error) {
		options = append(options, toolgate.WithRetryTimeout(time.Millisecond))
		client, err := toolgate.NewClient("https://"+listener.Addr().String(), options...)
		check(t, err)
		defer client.Close()
		return client.ServerInfo(bounded(t))
	}
	files := toolgate.WithTLSFiles(certificateFile, certificateFile, keyFile)
	answer, err := info(files, toolgate.WithToken("secret"))
	check(t, err)
	expect(t, "version", answer.GetVersion(), "1")
	_, err = info(files, toolgate.WithToken("wrong"))
	expect(t, "another token", status.Code(err), codes.Unauthenticated)
	_, err = info(toolgate.WithTLSFiles(certificateFile, "", ""), toolgate.WithToken("secret"))
	expect(t, "no certificate", status.Code(err), codes.Unavailable)
	t.Setenv("TOOLGATE_TOKEN", "secret")
	_, err = info(files)
	check(t, err)
	_, err = toolgate.NewClient("https://127.0.0.1:1", toolgate.WithTLSFiles("", certificateFile, ""))
	expect(t, "a certificate without a key", err != nil, true)
}
