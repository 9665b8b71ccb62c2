package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How long the service may take to start on a busy machine, and to stop.
const patience = time.Minute

// checkServes starts the service with a rendered configuration and secrets with the modes that the kubelet gives them.
func (at paths) checkServes(report *report) {
	name := "the service starts with what is rendered, and with secrets as the kubelet mounts them"
	if at.toolgate == "" {
		report.check(name, errNoProgram)
		return
	}
	report.check(name, at.serves(filepath.Join(at.tests, "values", "tokens.yaml")))
}

func (at paths) serves(values string) error {
	manifests, _, err := at.render(values)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	index := slices.IndexFunc(manifests, func(one manifest) bool { return one.Data["toolgate.toml"] != "" })
	config := manifests[index]
	config.Data["toolgate.toml"] = strings.NewReplacer(`"0.0.0.0:50551"`, `"127.0.0.1:0"`, `"0.0.0.0:9464"`, `"127.0.0.1:0"`).
		Replace(config.Data["toolgate.toml"])
	if _, err := at.configuration(config, folder, nil); err != nil {
		return err
	}
	if err := writeSecrets(filepath.Join(folder, "etc")); err != nil {
		return err
	}
	var said bytes.Buffer
	command := exec.Command(at.toolgate, "--json", "--config", filepath.Join(folder, "toolgate.toml"), "serve")
	command.Dir, command.Stderr = folder, &said
	command.Env = []string{"HOME=" + filepath.Join(folder, "home"), "PATH=" + os.Getenv("PATH"), "OPENCODE_DISABLE_PROJECT_CONFIG=1"}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer late.Stop()
	line, _ := bufio.NewReader(output).ReadString('\n')
	listens := strings.Contains(line, `"listening"`) && strings.Contains(line, "https://127.0.0.1:")
	_ = command.Process.Signal(syscall.SIGTERM)
	err = command.Wait()
	if !listens {
		return fmt.Errorf("it said %q and %q", line, said.String())
	}
	return err
}

// writeSecrets makes a certificate and a token, readable for their group as in a pod with an `fsGroup`.
func writeSecrets(folder string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tg-toolgate"}, DNSNames: []string{"tg-toolgate"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	token := fmt.Sprintf("agent sha256:%x calls.execute\n", sha256.Sum256([]byte("a-token-of-the-test")))
	for name, content := range map[string][]byte{
		"tls/tls.crt":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"tls/tls.key":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"tokens/tokens": []byte(token),
	} {
		// The kubelet mounts links to files in a folder that it replaces as a whole.
		path := filepath.Join(folder, name)
		data := filepath.Join(filepath.Dir(path), "..data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, filepath.Base(path)), content, 0o440); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", filepath.Base(path)), path); err != nil {
			return err
		}
	}
	return nil
}
