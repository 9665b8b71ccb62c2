package io.toolgate;

import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/** Gives the events of an execution to a subscriber, as fast as it asks for them. */
final class EventPublisher implements Flow.Publisher<CallEvent> {
    private final Execution execution;
    private final Executor executor;
    private final AtomicBoolean subscribed = new AtomicBoolean();

    EventPublisher(Execution execution, Executor executor) {
        this.execution = execution;
        this.executor = executor;
        execution.iterate();
    }

    @Override
    public void subscribe(Flow.Subscriber<? super CallEvent> subscriber) {
        Feed feed = new Feed(subscriber);
        if (subscribed.compareAndSet(false, true)) {
            executor.execute(feed);
        } else {
            subscriber.onSubscribe(feed);
            subscriber.onError(new IllegalStateException("the events of a call have one subscriber"));
        }
    }

    private final class Feed implements Flow.Subscription, Runnable {
        private final Flow.Subscriber<? super CallEvent> subscriber;
        private final Semaphore demand = new Semaphore(0);
        private volatile @Nullable IllegalArgumentException misuse;
        private volatile boolean cancelled;

        Feed(Flow.Subscriber<? super CallEvent> subscriber) {
            this.subscriber = subscriber;
        }

        @Override
        public void request(long events) {
            if (events <= 0) {
                misuse = new IllegalArgumentException("a request must be for at least one event, not " + events);
                demand.release();
                return;
            }
            // The semaphore counts to what an int holds, which is as good as for ever.
            int room = Integer.MAX_VALUE / 2 - demand.availablePermits();
            demand.release((int) Math.max(0, Math.min(events, room)));
        }

        @Override
        public void cancel() {
            cancelled = true;
            demand.release();
            executor.execute(execution::close);
        }

        @Override
        public void run() {
            subscriber.onSubscribe(this);
            try {
                publish();
            } catch (ToolgateException | IllegalArgumentException failure) {
                if (!cancelled) {
                    subscriber.onError(failure);
                }
            } catch (InterruptedException interrupted) {
                subscriber.onError(Rpc.interrupted("the client is closed"));
            }
        }

        private void publish() throws InterruptedException {
            while (true) {
                demand.acquire();
                if (cancelled) {
                    return;
                }
                if (misuse != null) {
                    throw misuse;
                }
                CallEvent event = execution.take();
                if (cancelled) {
                    return;
                }
                if (event != null) {
                    subscriber.onNext(event);
                }
                if (event == null || Typed.result(event) != null) {
                    subscriber.onComplete();
                    return;
                }
            }
        }
    }
}
