package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
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
