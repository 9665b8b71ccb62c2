package io.toolgate;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The value of an argument that is left out.
 *
 * <p>Arguments are required unless they have this annotation or are an {@link java.util.Optional}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
public @interface Default {
    /**
     * Returns the value as JSON, for instance {@code 1}, {@code true} or {@code "\"text\""}.
     *
     * @return JSON text
     */
    String value();
}
