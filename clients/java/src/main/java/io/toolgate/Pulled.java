package io.toolgate;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Iterates over what a source gives, one after another, until it gives null. */
final class Pulled<T> implements Iterator<T> {
    private final Supplier<? extends @Nullable T> source;
    /** What is said to who asks for more than there is. */
    private final String over;

    private @Nullable T next;

    Pulled(Supplier<? extends @Nullable T> source, String over) {
        this.source = source;
        this.over = over;
    }

    @Override
    public boolean hasNext() {
        if (next == null) {
            next = source.get();
        }
        return next != null;
    }

    @Override
    public T next() {
        T given = hasNext() ? next : null;
        if (given == null) {
            throw new NoSuchElementException(over);
        }
        next = null;
        return given;
    }
}
