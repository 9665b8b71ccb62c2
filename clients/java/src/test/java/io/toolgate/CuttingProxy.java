package io.toolgate;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** A port on loopback that leads to a Unix socket, and cuts each connection after some bytes, or when it is told to. */
final class CuttingProxy implements AutoCloseable {
    private final ServerSocketChannel listener = ServerSocketChannel.open();
    private final Set<SocketChannel> connections = ConcurrentHashMap.newKeySet();
    private final AtomicLong cuts = new AtomicLong();
    private final Path socket;
    private final long bytesEach;

    /** {@code bytesEach}: after how many bytes from the service a connection is cut. */
    CuttingProxy(Path socket, long bytesEach) throws IOException {
        this.socket = socket;
        this.bytesEach = bytesEach;
        listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        daemon(this::accept);
    }

    String target() throws IOException {
        return "http://127.0.0.1:" + ((InetSocketAddress) listener.getLocalAddress()).getPort();
    }

    long cuts() {
        return cuts.get();
    }

    /** Cuts what is connected now. */
    void cut() {
        connections.forEach(CuttingProxy::drop);
        connections.clear();
    }

    private void accept() {
        while (listener.isOpen()) {
            try {
                connect(listener.accept());
            } catch (IOException closed) {
                return;
            }
        }
    }

    /** A service that does not listen yet, or no longer, cuts the one connection. */
    private void connect(SocketChannel client) throws IOException {
        connections.add(client);
        try {
            SocketChannel service = SocketChannel.open(StandardProtocolFamily.UNIX);
            connections.add(service);
            service.connect(UnixDomainSocketAddress.of(socket));
            daemon(() -> copy(client, service, Long.MAX_VALUE));
            daemon(() -> copy(service, client, bytesEach));
        } catch (IOException unreachable) {
            client.close();
        }
    }

    private void copy(SocketChannel source, SocketChannel target, long most) {
        ByteBuffer piece = ByteBuffer.allocate(1024);
        long left = most;
        try (source;
                target) {
            while (left > 0 && source.read(piece.limit((int) Math.min(left, piece.capacity()))) != -1) {
                left -= piece.flip().limit();
                while (piece.hasRemaining()) {
                    target.write(piece);
                }
                piece.clear();
            }
        } catch (IOException cut) {
            // Which is what a proxy is here for.
            left = 0;
        }
        if (left == 0) {
            cuts.incrementAndGet();
        }
    }

    private static void daemon(Runnable task) {
        Thread thread = new Thread(task, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private static void drop(SocketChannel connection) {
        try {
            connection.close();
        } catch (IOException gone) {
            throw new UncheckedIOException(gone);
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
