/**
 * What adapters for frameworks of AI agents are made with. Who uses an adapter needs its own package only.
 *
 * <p>{@link io.toolgate.adapters.FrameworkTools} is the base of the class that an adapter gives to its framework.
 */
@NullMarked
package io.toolgate.adapters;

import org.jspecify.annotations.NullMarked;
