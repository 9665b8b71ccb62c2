package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// authority signs certificates, as cert-manager would.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority() (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template := validity(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the authority of the test"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	made, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(made)
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})}, err
}

// issue makes a certificate for servers and clients, and its key.
func (a authority) issue(names []string, address net.IP) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := validity(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if address != nil {
		template.IPAddresses = []net.IP{address}
	}
	made, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), err
}

func validity(certificate *x509.Certificate) *x509.Certificate {
	certificate.NotBefore, certificate.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	return certificate
}

// issuer signs tokens of service accounts, as a cluster does.
type issuer struct {
	key  *rsa.PrivateKey
	keys []byte // as the cluster shows them
}

func newIssuer() (issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return issuer{}, err
	}
	text := func(number *big.Int) string { return base64.RawURLEncoding.EncodeToString(number.Bytes()) }
	keys, err := json.Marshal(object{"keys": []object{{
		"use": "sig", "kty": "RSA", "kid": "1", "alg": "RS256", "n": text(key.N), "e": text(big.NewInt(int64(key.E))),
	}}})
	return issuer{key, keys}, err
}

// issue makes a token for the gateways, of an account and one of its pods.
func (i issuer) issue(account, pod string) ([]byte, error) {
	now := time.Now()
	claims := object{
		"iss": "https://kubernetes.default.svc.cluster.local", "aud": []string{"toolgate-gateway"}, "sub": account,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": "7d0f9b7c-0a38-4c0e-9f1e-000000000000",
		"kubernetes.io": object{"namespace": "agents", "pod": object{"name": pod}},
	}
	var parts []string
	for _, part := range []object{{"alg": "RS256", "kid": "1"}, claims} {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	signed := strings.Join(parts, ".")
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	return []byte(signed + "." + base64.RawURLEncoding.EncodeToString(signature)), err
}

// mount writes files as the kubelet mounts those of secrets: links into a folder that it replaces as a whole, readable for the group
// of the pod.
func mount(folder string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(folder, name)
		data := filepath.Join(filepath.Dir(path), "..data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		// What stands there makes configurations readable.
		_ = os.Remove(path)
		if err := os.WriteFile(filepath.Join(data, filepath.Base(path)), content, 0o440); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", filepath.Base(path)), path); err != nil {
			return err
		}
	}
	return nil
}
