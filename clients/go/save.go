package toolgate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes the output to a file and returns how many bytes it has. The bytes go to a temporary file beside it, which
// takes its name when everything is there and has the digest that the service stored; an output that is still being
// written is saved as far as it has come. If progress is not nil, it is told how many bytes are there, and of how many.
func (o *Output) Save(ctx context.Context, path string, progress func(done, total int64)) (written int64, err error) {
	info, err := o.Info(ctx)
	if err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, fmt.Errorf("toolgate: the output cannot be saved: %w", err)
	}
	defer func() {
		if err != nil {
			// Nothing is left of a file that did not become what it should.
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	digest := sha256.New()
	target := io.MultiWriter(file, digest)
	part := Range{}
	if info.Bytes > 0 {
		part = Bytes(0, info.Bytes)
	}
	for piece, err := range o.Read(ctx, part) {
		if err != nil {
			return written, err
		}
		if _, err := target.Write(piece); err != nil {
			return written, fmt.Errorf("toolgate: the output cannot be saved: %w", err)
		}
		written += int64(len(piece))
		if progress != nil {
			progress(written, max(written, info.Bytes))
		}
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); info.Complete && info.SHA256 != "" && sum != info.SHA256 {
		return written, fmt.Errorf("%w: %s has %s, the service says %s", ErrDigest, o.id, sum, info.SHA256)
	}
	return written, commit(file, path)
}

func commit(file *os.File, path string) error {
	for _, step := range []func() error{
		func() error { return file.Chmod(0o644) },
		file.Sync,
		file.Close,
		func() error { return os.Rename(file.Name(), path) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("toolgate: the output cannot be saved: %w", err)
		}
	}
	return nil
}
